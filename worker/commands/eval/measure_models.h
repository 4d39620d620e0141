#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "job/model/model_config.h"
#include "job/spec/requests.h"
#include "worker/commands/progress.h"
#include "worker/evaluation/latency.h"
#include "worker/evaluation/vocabulary_sums.h"

namespace dotresize {

struct PerplexityResult {
  double value = 0.0;
  int64_t predicted_tokens = 0;
  int64_t seqlen = 0;                         ///< tokens per window
  std::string tokens_fingerprint;             ///< SHA-256 of the windows' ids
  std::optional<Divergence> divergence = {};  ///< divergence from the reference's predictions
};

struct LatencyResult {
  Spread prompt_ms;  ///< per token, see LatencySamples
  Spread decode_ms;
};

/// Measurements of one model, in float32.
struct MeasuredModel {
  std::filesystem::path model;
  int64_t vocab_size = 0;
  int64_t parameters = 0;
  int64_t bytes = 0;  ///< stored tensors, tied ones once
  std::optional<PerplexityResult> perplexity;
  std::optional<LatencyResult> latency;
  std::vector<std::string> continuations;  ///< one for each of the request's prompts
};

/// Measures the models of the request one after the other, in order, after the reference if there
/// is one. Text is tokenised with each model's own tokenizer and cached in `cache_dir`. Plans and
/// enters the phases of `progress`. Throws InputError before any measurement if a model or its
/// tokens cannot be used, if the windows exceed ModelConfig::longest_window(), or if the tokens
/// differ from the reference's.
std::vector<MeasuredModel> measure_models(const EvalRequest& request,
                                          const std::filesystem::path& cache_dir,
                                          Progress& progress);

}  // namespace dotresize
