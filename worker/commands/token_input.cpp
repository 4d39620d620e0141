#include "worker/commands/token_input.h"

#include <ATen/ATen.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <functional>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/errors.h"
#include "base/files/file_changes.h"
#include "base/process/environment.h"
#include "base/text/sha256.h"
#include "job/plan/block_sizes.h"
#include "job/plan/text_files.h"
#include "worker/checkpoint/tokens.h"
#include "worker/python/python_helper.h"

namespace dotresize {
namespace fs = std::filesystem;
namespace {

constexpr int64_t kLeastTokenizerMemory = int64_t{512} << 20;

constexpr char kAbsentFile[] = "absent";  // in place of a hash, for text_files.py

std::vector<std::string> template_hashes(const fs::path& model_dir) {
  std::vector<std::string> hashes;
  for (const char* name : kTemplateFiles) {
    const fs::path file = model_dir / name;
    hashes.push_back(fs::exists(file) ? sha256_of_file(file) : kAbsentFile);
  }
  return hashes;
}

TokenFile read_source(const TokenSource& source, const TokenReader& reader) {
  const SourceTokens tokens = token_file(source, reader);
  return read_tokens(tokens.file, reader.config.vocab_size);
}

int64_t seqlen_of(const TokenSource& source, const TokenFile& file, const ModelConfig& config) {
  const int64_t otherwise = source.default_seqlen.value_or(default_seqlen(config));
  return source.seqlen.value_or(file.row_length.value_or(otherwise));
}

int64_t calibration_samples(const TokenSource& source, const TokenFile& file, int64_t seqlen) {
  return source.samples.value_or(file.row_length ? file.tokens.numel() / seqlen : kDefaultSamples);
}

/// Calls `read` on rank 0 and shares the windows.
TokenWindows share_windows(Communicator& comm, const std::function<at::Tensor()>& read) {
  at::Tensor windows = at::empty({0, 0}, at::kLong);
  if (comm.rank() == 0) windows = read();
  at::Tensor shape = at::tensor(windows.sizes(), at::kLong);
  comm.broadcast(shape, 0);
  windows = broadcast_tensor(comm, windows, {shape[0].item<int64_t>(), shape[1].item<int64_t>()},
                             at::kLong, 0);
  return {windows, sha256_of_bytes(windows.const_data_ptr(), windows.nbytes())};
}

bool is_writable(const fs::path& path) { return ::access(path.c_str(), W_OK | X_OK) == 0; }

}  // namespace

SourceTokens token_file(const TokenSource& source, const TokenReader& reader) {
  if (source.text.empty()) return {source.tokens};
  if (const std::string fault = tokenizer_fault(reader.model_dir); !fault.empty()) {
    throw InputError(fault);
  }
  // The cached file is named after the hashes of tokenizer and texts, and of the code that reads
  // them.
  std::vector<std::string> hashes = {sha256_of_file(reader.model_dir / "tokenizer.json")};
  std::string all = hashes.front();
  for (const std::string_view code : {text_files_py(), tokenize_text_py()}) {
    all += sha256_of_bytes(code.data(), code.size());
  }
  for (const fs::path& file : source.text) {
    all += hashes.emplace_back(sha256_of_file(file));
    if (is_table(file)) all += file.extension().string();
  }
  const std::vector<std::string> of_template = template_hashes(reader.model_dir);
  for (const std::string& hash : of_template) all += hash;
  const std::string key = sha256_of_bytes(all.data(), all.size()).substr(0, 32);
  files::create_directories(reader.cache_dir);
  SourceTokens tokens{reader.cache_dir / ("tokens-" + key + ".safetensors"),
                      CacheUse(reader.cache_dir)};
  if (fs::exists(fs::symlink_status(tokens.file))) {
    std::error_code unchanged;
    files::touch(tokens.file, unchanged);
    if (is_sealed(tokens.file)) return tokens;
    fmt::print(stderr, "warning: {} has no hash that matches: the text is tokenised again\n",
               tokens.file.string());
  }
  std::vector<std::string> arguments = {
      "--memory", std::to_string(std::max(reader.limits.memory, kLeastTokenizerMemory))};
  const auto add_hashes = [&](const char* option, const std::vector<std::string>& given) {
    if (given.empty()) return;
    arguments.emplace_back(option);
    arguments.insert(arguments.end(), given.begin(), given.end());
  };
  add_hashes("--template-sha256", of_template);
  add_hashes("--sha256", hashes);
  arguments.insert(arguments.end(), {"--", reader.model_dir.string(),
                                     tokens.use.for_others() / tokens.file.filename()});
  for (const fs::path& file : source.text) arguments.push_back(file.string());
  // Another program may change the file before it is checked.
  constexpr int kMostAttempts = 3;
  for (int attempt = 0; attempt < kMostAttempts; ++attempt) {
    run_tokenizer(arguments, reader.limits.idle);
    if (is_sealed(tokens.file)) return tokens;
  }
  throw std::runtime_error(tokens.file.string() +
                           " does not match the hash that the tokenizer wrote beside it: the disk "
                           "is faulty, or another program has changed the file");
}

TokenWindows load_calibration_windows(Communicator& comm, const TokenSource& calibration,
                                      const TokenReader& reader) {
  return share_windows(comm, [&] {
    const TokenFile file = read_source(calibration, reader);
    const int64_t seqlen = seqlen_of(calibration, file, reader.config);
    return calibration_windows(file.tokens, calibration_samples(calibration, file, seqlen), seqlen);
  });
}

TokenWindows load_evaluation_windows(Communicator& comm, const EvaluationSource& evaluation,
                                     const TokenSource& calibration, const TokenReader& reader) {
  return share_windows(comm, [&] {
    const TokenFile file = read_source(evaluation, reader);
    const int64_t seqlen = seqlen_of(evaluation, file, reader.config);
    if (!evaluation.unused_windows) {
      const at::Tensor all = evaluation_windows(file.tokens, seqlen);
      return evaluation.samples ? spread_windows(all, *evaluation.samples) : all;
    }
    const at::Tensor unused =
        unused_windows(file.tokens, calibration_samples(calibration, file, seqlen), seqlen);
    return spread_windows(
        unused, evaluation.samples.value_or(std::min(kDefaultUnusedSamples, unused.size(0))));
  });
}

TokenCache TokenCache::beside(const fs::path& job_file) {
  // It is made only for a job with text.
  fs::path path = job_file.parent_path() / kTokenCacheName;
  struct stat status {};
  const bool exists = ::lstat(path.c_str(), &status) == 0;
  const bool foreign = exists && (!S_ISDIR(status.st_mode) || status.st_uid != ::geteuid());
  const bool usable = !foreign && is_writable(exists ? path : path.parent_path());
  return usable ? TokenCache(std::move(path)) : of_user();
}

TokenCache TokenCache::of_user() {
  fs::path path = user_cache_dir();
  std::error_code error;
  if (!path.empty()) files::create_directories(path, error);
  if (!path.empty() && !error && is_writable(path)) return TokenCache(std::move(path));
  auto scratch = std::make_unique<ScratchDirectory>();
  TokenCache cache(scratch->path());
  cache.scratch_ = std::move(scratch);
  return cache;
}

}  // namespace dotresize
