#include "worker/commands/token_input.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "base/errors.h"
#include "base/process/environment.h"
#include "base/text/sha256.h"
#include "job/plan/block_sizes.h"
#include "worker/checkpoint/tokens.h"
#include "worker/python/python_helper.h"

namespace dotresize {
namespace fs = std::filesystem;
namespace {

constexpr int64_t kLeastTokenizerMemory = int64_t{512} << 20;

at::Tensor read_windows(const TokenSource& source, const WindowUse& use, const fs::path& model_dir,
                        const ModelConfig& config, const fs::path& cache_dir,
                        const TokenizerLimits& limits) {
  const fs::path file = token_file(source, model_dir, cache_dir, limits);
  const TokenFile tokens = read_tokens(file, config.vocab_size);
  const int64_t seqlen = source.seqlen.value_or(tokens.row_length.value_or(kDefaultSeqlen));
  if (use.calibration) {
    const int64_t samples = source.samples.value_or(
        tokens.row_length ? tokens.tokens.numel() / seqlen : kDefaultSamples);
    return calibration_windows(tokens.tokens, samples, seqlen);
  }
  if (use.beside != nullptr) {
    const at::Tensor unused = unused_windows(tokens.tokens, use.beside->windows.size(0), seqlen);
    return spread_windows(unused,
                          source.samples.value_or(std::min(kDefaultUnusedSamples, unused.size(0))));
  }
  const at::Tensor all = evaluation_windows(tokens.tokens, seqlen);
  return source.samples ? spread_windows(all, *source.samples) : all;
}

}  // namespace

fs::path token_file(const TokenSource& source, const fs::path& model_dir, const fs::path& cache_dir,
                    const TokenizerLimits& limits) {
  if (source.text.empty()) return source.tokens;
  if (!fs::exists(model_dir / "tokenizer.json")) {
    throw InputError(
        model_dir.string() +
        " has no tokenizer.json: give calibration.tokens and evaluation.tokens instead of text");
  }
  // The cached file is named after the hashes of tokenizer and texts.
  std::vector<std::string> hashes = {sha256_of_file(model_dir / "tokenizer.json")};
  for (const fs::path& file : source.text) hashes.push_back(sha256_of_file(file));
  std::string all;
  for (const std::string& hash : hashes) all += hash;
  const std::string key = sha256_of_bytes(all.data(), all.size()).substr(0, 32);
  fs::path out = cache_dir / ("tokens-" + key + ".safetensors");
  if (fs::exists(out)) {
    std::error_code not_ours;  // another user's file; its age does not matter
    fs::last_write_time(out, fs::file_time_type::clock::now(), not_ours);
    return out;
  }
  fs::create_directories(cache_dir);
  std::vector<std::string> arguments = {
      "--memory", std::to_string(std::max(limits.memory, kLeastTokenizerMemory)), "--sha256"};
  arguments.insert(arguments.end(), hashes.begin(), hashes.end());
  arguments.insert(arguments.end(), {"--", model_dir.string(), out.string()});
  for (const fs::path& file : source.text) arguments.push_back(file.string());
  run_python_helper("tokenizer", tokenize_text_py(), arguments, limits.idle);
  return out;
}

TokenWindows load_token_windows(Communicator& comm, const TokenSource& source, const WindowUse& use,
                                const fs::path& model_dir, const ModelConfig& config,
                                const fs::path& cache_dir, const TokenizerLimits& limits) {
  at::Tensor windows = at::empty({0, 0}, at::kLong);
  if (comm.rank() == 0) {
    windows = read_windows(source, use, model_dir, config, cache_dir, limits);
  }
  at::Tensor shape = at::tensor(windows.sizes(), at::kLong);
  comm.broadcast(shape, 0);
  windows = broadcast_tensor(comm, windows, {shape[0].item<int64_t>(), shape[1].item<int64_t>()},
                             at::kLong, 0);
  return {windows, sha256_of_bytes(windows.const_data_ptr(), windows.nbytes())};
}

}  // namespace dotresize
