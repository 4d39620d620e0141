#pragma once

#include <ATen/core/Tensor.h>

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/process/environment.h"
#include "job/model/model_config.h"
#include "job/spec/requests.h"
#include "worker/comm/communicator.h"

namespace dotresize {

/// A source's tokens in windows, on every rank.
struct TokenWindows {
  at::Tensor windows;       ///< [samples, seqlen] int64
  std::string fingerprint;  ///< SHA-256 of the windows' ids; "held-out" for windows
                            ///< that a choice of sizes is checked with
  /// Positions of the windows in the set they were taken from; empty: all of it.
  std::vector<int64_t> numbers = {};
};

struct TokenizerLimits {
  /// Bytes, raised to at least half a gigabyte, which its program needs.
  int64_t memory = usable_memory_bytes();
  /// Time after which a tokenizer that uses no processor counts as hung; nullopt: for ever.
  std::optional<std::chrono::seconds> idle = {};
};

/// Purpose of a source's windows.
struct WindowUse {
  bool calibration = false;
  /// Calibration whose windows are left out; evaluation only; may be null.
  const TokenWindows* beside = nullptr;
};

/// Reads the source on rank 0, cuts it into the windows that `samples` and `seqlen` ask for, and
/// shares them. Text goes through the model's tokenizer once; the result is cached in `cache_dir`.
/// Without `samples` an evaluation uses all whole windows, or beside a calibration at most
/// kDefaultUnusedSamples. Throws InputError, and std::runtime_error for a tokenizer that hangs.
TokenWindows load_token_windows(Communicator& comm, const TokenSource& source, const WindowUse& use,
                                const std::filesystem::path& model_dir, const ModelConfig& config,
                                const std::filesystem::path& cache_dir,
                                const TokenizerLimits& limits = {});

/// Returns the source's token file. Text is tokenised with the model's tokenizer, by Hugging Face
/// `tokenizers` in a Python process, into a file of `cache_dir`, which is reused while tokenizer
/// and texts stay the same. The file's name contains the hash of exactly the bytes that were
/// tokenised. Throws InputError.
std::filesystem::path token_file(const TokenSource& source, const std::filesystem::path& model_dir,
                                 const std::filesystem::path& cache_dir,
                                 const TokenizerLimits& limits = {});

}  // namespace dotresize
