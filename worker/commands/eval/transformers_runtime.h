#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

#include "job/model/model_config.h"
#include "job/spec/requests.h"
#include "worker/evaluation/latency.h"

namespace dotresize {

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
