#pragma once

#include <ATen/core/Tensor.h>

#include <chrono>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/files/cache_files.h"
#include "base/files/directory.h"
#include "base/process/environment.h"
#include "job/model/model_config.h"
#include "job/plan/resolved_job.h"
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

/// Model that tokens are for.
struct TokenReader {
  const std::filesystem::path& model_dir;
  const ModelConfig& config;
  /// Text goes through the model's tokenizer once; the result is cached here.
  const std::filesystem::path& cache_dir;
  TokenizerLimits limits = {};
};

/// Each of the following reads a source on rank 0, chooses windows of it, and shares them. Throws
/// InputError, and std::runtime_error for a tokenizer that hangs.
/// Windows that a job's calibration or healing uses, spread evenly.
TokenWindows load_calibration_windows(Communicator& comm, const TokenSource& calibration,
                                      const TokenReader& reader);
/// Windows that a job's evaluation uses: whoever measures a job's result again chooses them here.
/// Without `samples` all whole windows, or of those that the calibration leaves at most
/// kDefaultUnusedSamples. `calibration`: source of the same files if these are used.
TokenWindows load_evaluation_windows(Communicator& comm, const EvaluationSource& evaluation,
                                     const TokenSource& calibration, const TokenReader& reader);

/// A source's token file, kept in its cache while this object lives.
struct SourceTokens {
  std::filesystem::path file;
  CacheUse use = {};
};

/// Returns the source's token file. Text is tokenised with the model's tokenizer, by Hugging Face
/// `tokenizers` in a Python process, into a file of `cache_dir`, which is reused while tokenizer,
/// texts and, for conversations, the chat template stay the same. The file's name contains the hash
/// of exactly the bytes that were tokenised. A file that does not match its seal
/// (base/files/cache_files.h) is made again. Throws InputError.
SourceTokens token_file(const TokenSource& source, const TokenReader& reader);

/// Directory in which tokenised texts are kept.
class TokenCache {
 public:
  explicit TokenCache(std::filesystem::path path) : path_(std::move(path)) {}
  /// The directory beside a job file, or of_user() if it is another user's or no files can be made
  /// there.
  static TokenCache beside(const std::filesystem::path& job_file);
  /// The user's cache, or a temporary directory that ends with this object if there is none, or no
  /// files can be made there.
  static TokenCache of_user();

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  std::unique_ptr<ScratchDirectory> scratch_;
};

}  // namespace dotresize
