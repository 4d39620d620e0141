#include "worker/checkpoint/verify.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <set>

#include "base/errors.h"
#include "base/files/input_file.h"
#include "base/text/printable.h"
#include "base/text/sha256.h"
#include "job/model/wrappers.h"
#include "worker/checkpoint/elements.h"
#include "worker/checkpoint/reader.h"

namespace dotresize {
namespace fs = std::filesystem;
namespace {

using Problems = std::vector<std::string>;

/// True if the path is a link whose target may be changed without changing `dir`. In a snapshot of
/// the Hub's cache, links lead to the files named after their hashes in `blobs`.
bool is_foreign_link(const fs::path& dir, const fs::path& path) {
  std::error_code error;
  if (!fs::is_symlink(fs::symlink_status(path, error))) return false;
  const fs::path snapshot = fs::canonical(dir, error);
  const fs::path blobs = snapshot.parent_path().parent_path() / "blobs";
  return snapshot.parent_path().filename() != "snapshots" ||
         fs::canonical(path, error).parent_path() != blobs;
}

void verify_sums(const fs::path& dir, VerifyResult& result) {
  const auto sums = parse_sha256_sums(read_whole_file((dir / kSumsFile).string(), kMaxSumsBytes),
                                      result.problems);
  const std::vector<std::string> files = output_files(dir);
  std::set<std::string> present(files.begin(), files.end());
  for (const auto& [file, expected] : sums) {
    if (present.erase(file) == 0) {
      result.problems.push_back(file + ": listed in SHA256SUMS, but missing");
      continue;
    }
    if (is_foreign_link(dir, dir / file)) {
      result.problems.push_back(file +
                                ": is a symbolic link, and its target is no part of this "
                                "model");
    }
    ++result.files;
    if (sha256_of_file(dir / file) != expected) {
      result.problems.push_back(file + ": its content does not match SHA256SUMS");
    }
  }
  for (const std::string& file : present) {
    result.problems.push_back(file + ": not listed in SHA256SUMS");
  }
}

void verify_finite(const std::string& name, const at::Tensor& tensor, Problems& problems) {
  int64_t bad = 0;
  int64_t first_bad = 0;
  for_each_block(tensor, [&](const at::Tensor& block, int64_t first) {
    if (all_finite(block)) return;
    const at::Tensor wrong = block.isfinite().logical_not();
    if (bad == 0) first_bad = first + wrong.nonzero()[0].item<int64_t>();
    bad += wrong.sum().item<int64_t>();
  });
  if (bad > 0) {
    problems.push_back("tensor " + in_quotes(name) + ": " + std::to_string(bad) +
                       " values are NaN or infinite, the first at position " +
                       std::to_string(first_bad));
  }
}

/// Name of a tensor in a model of text; absent for one of another part of a wrapper.
using TextName = std::function<std::optional<std::string>(const std::string& stored)>;

TextName text_names(const CheckpointReader& reader, bool wrapper) {
  if (!wrapper) return [](const std::string& stored) { return std::optional(stored); };
  const WrapperNames* names = find_wrapper_names(reader.names());
  return [names](const std::string& stored) {
    return names == nullptr ? std::nullopt : text_name(*names, stored);
  };
}

void verify_shapes(const CheckpointReader& reader, const TextName& text_name_of,
                   std::map<std::string, std::vector<int64_t>> expected_shapes,
                   Problems& problems) {
  for (const std::string& stored : reader.names()) {
    const std::optional<std::string> name = text_name_of(stored);
    if (!name) continue;
    const auto expected = expected_shapes.extract(*name);
    if (expected.empty()) {
      problems.push_back("tensor " + in_quotes(stored) + " does not belong to the model");
    } else if (const auto found = reader.shape(stored); found != expected.mapped()) {
      problems.push_back(c10::str("tensor ", in_quotes(stored), " has shape ",
                                  at::IntArrayRef(found), ", config.json implies ",
                                  at::IntArrayRef(expected.mapped())));
    }
  }
  for (const auto& [name, shape] : expected_shapes) {
    problems.push_back("tensor " + in_quotes(name) + " is missing");
  }
}

void verify_tensors(const fs::path& dir,
                    const std::map<std::string, std::vector<int64_t>>& expected_shapes,
                    bool wrapper, VerifyResult& result) {
  const CheckpointReader reader(dir);
  const TextName text_name_of = text_names(reader, wrapper);
  for (const std::string& name : reader.names()) {
    ++result.tensors;
    if (!text_name_of(name) && !is_weight_dtype(reader.dtype(name))) continue;
    const at::Tensor tensor = reader.get(name, reader.shape(name));
    result.parameters += tensor.numel();
    verify_finite(name, tensor, result.problems);
    reader.release(name, tensor);
  }
  if (!expected_shapes.empty()) {
    verify_shapes(reader, text_name_of, expected_shapes, result.problems);
  }
}

}  // namespace

VerifyResult verify_model_dir(const fs::path& dir,
                              const std::map<std::string, std::vector<int64_t>>& expected_shapes,
                              bool wrapper) {
  if (!fs::is_directory(dir)) throw InputError(dir.string() + ": no such directory");
  VerifyResult result;
  try {
    verify_sums(dir, result);
  } catch (const InputError& error) {
    result.problems.push_back(error.what());
  }
  try {
    verify_tensors(dir, expected_shapes, wrapper, result);
  } catch (const InputError& error) {
    result.problems.push_back(error.what());
  }
  return result;
}

std::vector<std::string> output_files(const fs::path& dir) {
  std::vector<std::string> files;
  for (const auto& entry : fs::recursive_directory_iterator(dir)) {
    const std::string name = entry.path().lexically_relative(dir).generic_string();
    if (!entry.is_directory() && name != kSumsFile) files.push_back(name);
  }
  std::ranges::sort(files);
  return files;
}

std::string sha256_sums(const fs::path& dir, const std::map<std::string, std::string>& known) {
  std::string sums;
  for (const std::string& file : output_files(dir)) {
    const auto found = known.find(file);
    const std::string sum = found != known.end() ? found->second : sha256_of_file(dir / file);
    sums.append(sum).append("  ").append(file).append("\n");  // as sha256sum
  }
  return sums;
}

}  // namespace dotresize
