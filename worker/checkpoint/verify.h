#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace dotresize {

struct VerifyResult {
  std::vector<std::string> problems;  ///< one sentence each; empty: the model is as it was written
  int64_t files = 0;                  ///< number of files with a compared hash
  int64_t tensors = 0;
  int64_t parameters = 0;
};

/// Names of the files below `dir` that SHA256SUMS lists, relative to it and sorted.
std::vector<std::string> output_files(const std::filesystem::path& dir);

/// Checks a finished model directory: SHA256SUMS (missing, changed and additional files; paths only
/// within the directory; symbolic links only in the cache of the Hub), safetensors headers, index
/// against shards, and finite values. Unless `expected_shapes` is empty, the tensors must be
/// exactly those, with these shapes; those beside the text part of a `wrapper` may be any.
/// Continues after a problem if it can. Throws InputError if there is no such directory.
VerifyResult verify_model_dir(const std::filesystem::path& dir,
                              const std::map<std::string, std::vector<int64_t>>& expected_shapes,
                              bool wrapper = false);

/// Returns SHA256SUMS of all other files below `dir`, in sha256sum's format, sorted by path.
/// `known`: hashes by relative path that need not be computed.
std::string sha256_sums(const std::filesystem::path& dir,
                        const std::map<std::string, std::string>& known = {});

}  // namespace dotresize
