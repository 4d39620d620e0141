#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace dotresize {

/// Source of tokens: text files or one token file.
struct TokenSource {
  std::vector<std::filesystem::path> text;
  std::filesystem::path tokens;  ///< empty if `text` is given
  std::optional<int64_t> samples;
  std::optional<int64_t> seqlen;  ///< absent: the token file's row length, else the default
  std::optional<int64_t> default_seqlen = {};  ///< absent: default_seqlen(model)
  std::optional<int64_t> count = {};           ///< tokens in the token file; absent: not counted

  bool given() const { return !text.empty() || !tokens.empty(); }
};

/// Options of a latency measurement: a prompt of random tokens is read at once, then further tokens
/// one at a time, with the cached keys and values of the earlier ones.
struct LatencyOptions {
  int64_t prompt = 128;      ///< tokens of the prompt
  int64_t decode = 32;       ///< tokens after it
  int64_t batch = 1;         ///< sequences at once
  int64_t repetitions = 10;  ///< timed runs
  int64_t warmup = 2;        ///< untimed runs before them
  uint64_t seed = 1;         ///< seed of the random tokens

  int64_t tokens() const { return prompt + decode; }
};

/// Engine that runs the models: the worker itself, or transformers in a Python process.
enum class Runtime { kOwn, kTransformers };

/// "own", "transformers".
inline std::string to_string(Runtime runtime) {
  return runtime == Runtime::kOwn ? "own" : "transformers";
}

/// Arguments of `dotresize eval`.
struct EvalRequest {
  std::vector<std::filesystem::path> models;
  /// Model whose predictions the others are compared with; empty: no comparison.
  std::filesystem::path reference;
  TokenSource source;  ///< text for perplexity; without text and tokens: not asked for
  bool latency = false;
  LatencyOptions latency_options;
  Runtime runtime = Runtime::kOwn;
  std::vector<std::string> prompts;  ///< texts that the models continue, for people to compare
  int64_t new_tokens = 48;           ///< tokens generated after each prompt

  bool generation() const { return !prompts.empty(); }
  bool perplexity() const { return source.given(); }
};

/// Arguments of `dotresize verify`.
struct VerifyRequest {
  std::filesystem::path dir;      ///< output directory of a job
  std::filesystem::path against;  ///< source model to compare with; empty: no comparison
  TokenSource source;             ///< tokens for the comparison; optional
};

}  // namespace dotresize
