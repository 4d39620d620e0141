#pragma once

#include <ATen/core/Tensor.h>

#include <filesystem>
#include <string>
#include <vector>

#include "base/environment.h"
#include "job/model/model_config.h"
#include "job/spec/token_source.h"
#include "worker/comm/communicator.h"

namespace dotresize {

/// The tokens of a source, cut into windows, on every rank.
struct TokenWindows {
  at::Tensor windows;       ///< [samples, seqlen] int64
  std::string fingerprint;  ///< SHA-256 of the windows' ids
  /// Numbers of the windows among those that they are a part of; empty: they are all.
  std::vector<int64_t> numbers = {};
};

/// What windows of a source are for.
struct WindowUse {
  bool calibration = false;
  /// Evaluation only: windows of this calibration are left out, if there is one.
  const TokenWindows* beside = nullptr;
};

/// Rank 0 reads the source (text through the model's tokenizer, once: the result is cached in
/// `cache_dir`), cuts it into the windows that `samples` and `seqlen` ask for, and shares them.
/// Without `samples` an evaluation has all whole windows, or kDefaultUnusedSamples at most of those
/// beside a calibration. `memory`: bytes that the tokenizer may have; half a gigabyte at least,
/// since its program takes that. Throws InputError.
TokenWindows load_token_windows(Communicator& comm, const TokenSource& source, const WindowUse& use,
                                const std::filesystem::path& model_dir, const ModelConfig& config,
                                const std::filesystem::path& cache_dir,
                                int64_t memory = usable_memory_bytes());

/// Where tokenised text is kept outside of a job, in the user's cache; empty if the source has no
/// text. Throws InputError if there is no such cache.
std::filesystem::path token_cache_dir(const TokenSource& source);

/// The source's token file. If it has text, that is tokenised with the model's tokenizer, into a
/// file of `cache_dir` which is reused while tokenizer and texts stay the same: the bytes that are
/// tokenised are those that its name has the hash of. Throws InputError.
std::filesystem::path token_file(const TokenSource& source, const std::filesystem::path& model_dir,
                                 const std::filesystem::path& cache_dir,
                                 int64_t memory = usable_memory_bytes());

}  // namespace dotresize
