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

/// True if transformers may run the Python code of a model directory: config.json names the code of
/// this version of dotresize, and the directory holds it byte for byte. False if the model needs no
/// code. Throws InputError for any other code, which would be run unseen.
bool may_run_code(const std::filesystem::path& model_dir, const ModelConfig& config);

/// Measurements by transformers in float32.
struct TransformersResult {
  std::optional<double> perplexity;
  std::optional<LatencySamples> latency;
};

/// Runs the model in transformers, in a Python process, offline and with as many threads as this
/// process. `token_file`: tokens for perplexity over windows of `seqlen`; empty: no perplexity.
/// Throws InputError if the model cannot be loaded, std::runtime_error if Python or transformers
/// fail.
TransformersResult run_in_transformers(const std::filesystem::path& model_dir,
                                       const ModelConfig& config,
                                       const std::filesystem::path& token_file, int64_t seqlen,
                                       const std::optional<LatencyOptions>& latency);

}  // namespace dotresize
