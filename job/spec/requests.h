#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "job/spec/token_source.h"

namespace dotresize {

/// How latency is measured: a prompt of random tokens is read in one go, then further tokens one at
/// a time, each with the keys and values of those before it.
struct LatencyOptions {
  int64_t prompt = 128;      ///< tokens of the prompt
  int64_t decode = 32;       ///< tokens after it
  int64_t batch = 1;         ///< sequences at once
  int64_t repetitions = 10;  ///< that are timed
  int64_t warmup = 2;        ///< repetitions before them that are not
  uint64_t seed = 1;         ///< of the random tokens

  int64_t tokens() const { return prompt + decode; }
};

/// What runs the models: the worker itself, or transformers in a Python process.
enum class Runtime { kOwn, kTransformers };

/// "own", "transformers".
inline std::string to_string(Runtime runtime) {
  return runtime == Runtime::kOwn ? "own" : "transformers";
}

/// What `dotresize eval` is asked for.
struct EvalRequest {
  std::vector<std::filesystem::path> models;
  /// With whose predictions those of `models` are compared; empty: none.
  std::filesystem::path reference;
  TokenSource source;  ///< of perplexity; neither text nor tokens: none is asked for
  bool latency = false;
  LatencyOptions latency_options;
  Runtime runtime = Runtime::kOwn;
  std::vector<std::string> prompts;  ///< that the models continue, for people to compare
  int64_t new_tokens = 48;           ///< after each

  bool generation() const { return !prompts.empty(); }
  bool perplexity() const { return source.given(); }
};

/// What `dotresize verify` is asked for.
struct VerifyRequest {
  std::filesystem::path dir;      ///< output directory of a job
  std::filesystem::path against;  ///< the model that it was made of; empty: not compared
  TokenSource source;             ///< for the comparison; neither text nor tokens: none is given
};

}  // namespace dotresize
