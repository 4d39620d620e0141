#pragma once

#include <ATen/core/Tensor.h>

#include <filesystem>
#include <string>
#include <vector>

#include "worker/checkpoint/shard_layout.h"

namespace dotresize {

/// Writes the shards of one rank into `dir` as tensors become ready, in any order: the header is
/// written first, with the space of the whole file reserved, and each tensor goes to its place.
/// What the files hold depends on layout and tensors alone. A file is whole only after finish(), so
/// `dir` is one that is renamed afterwards. Not thread-safe.
class ShardWriter {
 public:
  /// Creates the rank's files, replacing any of an earlier attempt. Throws std::runtime_error with
  /// errno's text, also if the disk has no room for them.
  ShardWriter(const std::filesystem::path& dir, const ShardLayout& layout, int rank);
  ~ShardWriter();
  ShardWriter(const ShardWriter&) = delete;
  ShardWriter& operator=(const ShardWriter&) = delete;

  /// Converts to the spec's dtype (the one rounding), block by block, and writes. The tensor may be
  /// strided and on any device; only floating dtypes are converted. Throws std::logic_error for a
  /// name that is not this rank's, was written before, or has another shape; InputError for a
  /// finite value that the dtype cannot hold; std::runtime_error for NaN or infinity, and with
  /// errno's text when the disk fails.
  void write(const std::string& name, const at::Tensor& tensor);
  /// Throws std::logic_error naming a tensor that was never written; fsyncs every file.
  void finish();

 private:
  struct OpenShard;
  std::vector<OpenShard> shards_;
};

}  // namespace dotresize
