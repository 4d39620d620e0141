#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/ScalarType.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace dotresize {

/// A tensor that a shard will hold.
struct TensorSpec {
  std::string name;
  at::ScalarType dtype;
  std::vector<int64_t> shape;

  int64_t elements() const;
  int64_t bytes() const { return elements() * static_cast<int64_t>(c10::elementSize(dtype)); }
};

/// Which file holds which tensor, and how large it all is. Every rank computes the same layout.
struct ShardLayout {
  struct Shard {
    std::string file;  ///< model-00001-of-00008.safetensors
    int rank = 0;      ///< who writes it
    std::vector<TensorSpec> tensors;
  };
  std::vector<Shard> shards;
  int64_t total_bytes = 0;
  int64_t total_parameters = 0;
};

/// Cuts each rank's tensors, in their order, into shards of at most `max_shard_bytes` of data (a
/// larger tensor gets its own). Files are numbered over all ranks. Throws std::logic_error for a
/// name that is there twice.
ShardLayout make_shard_layout(const std::vector<std::vector<TensorSpec>>& tensors_by_rank,
                              int64_t max_shard_bytes = int64_t{5} << 30);

/// model.safetensors.index.json of the layout, with total_size and total_parameters as transformers
/// writes them.
std::string index_json(const ShardLayout& layout);

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
