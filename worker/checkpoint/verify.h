#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace dotresize {

struct VerifyResult {
  std::vector<std::string> problems;  ///< one sentence each; empty: the model is as it was written
  int64_t files = 0;                  ///< whose hash was compared
  int64_t tensors = 0;
  int64_t parameters = 0;
};

/// Checks a finished model directory: SHA256SUMS (missing, changed and additional files, and only
/// paths within the directory), the safetensors headers, the index against its shards, that every
/// floating value is finite, and, unless `expected_shapes` is empty, that the tensors are exactly
/// those with these shapes. Goes on after a problem if it can. Throws InputError if there is
/// no such directory.
VerifyResult verify_model_dir(const std::filesystem::path& dir,
                              const std::map<std::string, std::vector<int64_t>>& expected_shapes);

/// SHA256SUMS of all files below `dir` but itself, in the form of sha256sum, sorted by path.
/// `known`: hashes by relative path that are there already.
std::string sha256_sums(const std::filesystem::path& dir,
                        const std::map<std::string, std::string>& known = {});

}  // namespace dotresize
