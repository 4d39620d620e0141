#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/ScalarType.h>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "job/checkpoint/checkpoint_table.h"
#include "job/model/tensor_table.h"

namespace dotresize {

/// A tensor that a shard will hold.
struct TensorSpec {
  std::string name;
  at::ScalarType dtype;
  std::vector<int64_t> shape;
  std::string stored_name = {};  ///< in the file; empty: `name`
  /// The tensor is a part of the one of that name in the file. All parts follow one another.
  std::optional<TensorSlice> slice = {};
  /// Place of the elements in another file, from which they are copied as they are. `dtype` is then
  /// without meaning: the format has more of them.
  std::optional<TensorPlace> copied = {};

  const std::string& name_in_file() const { return stored_name.empty() ? name : stored_name; }
  bool begins_in_file() const { return !slice || slice->index == 0; }
  int64_t elements() const;
  int64_t bytes() const;
};

/// Returns the spec of a tensor that is copied.
TensorSpec copied_tensor(const TensorPlace& place);

/// The file of each tensor, and the total size. The layout is the same on every rank and for any
/// number of ranks.
struct ShardLayout {
  struct Shard {
    std::string file;  ///< name such as model-00001-of-00008.safetensors
    std::vector<TensorSpec> tensors;
  };
  std::vector<Shard> shards;
  int64_t total_bytes = 0;
  int64_t total_parameters = 0;
  // The part of both that is copied.
  int64_t copied_bytes = 0;
  int64_t copied_parameters = 0;
};

/// Divides the tensors, in order, into shards of at most `max_shard_bytes` of data; a larger tensor
/// gets its own shard. Parts of one tensor stay together. Throws std::logic_error for a repeated
/// name.
ShardLayout make_shard_layout(const std::vector<TensorSpec>& tensors,
                              int64_t max_shard_bytes = int64_t{5} << 30);

/// Returns model.safetensors.index.json of the layout, with total_size and total_parameters as
/// transformers writes them.
std::string index_json(const ShardLayout& layout);

/// Creates the files of the layout, replacing those of an earlier attempt: writes the headers and
/// reserves the full space. Throws std::runtime_error with errno's text, also if the disk is full.
void create_shards(const std::filesystem::path& dir, const ShardLayout& layout);

/// Writes tensors into existing shards, in any order, each to its place. Several ranks may write
/// into one file, each its own tensors. The files' content depends on layout and tensors alone. A
/// file is complete only after every rank's finish(), so `dir` is renamed afterwards. Not
/// thread-safe.
class ShardWriter {
 public:
  /// `mine`: the tensors that this rank writes. Throws std::runtime_error with errno's text.
  ShardWriter(const std::filesystem::path& dir, const ShardLayout& layout,
              const std::set<std::string>& mine);
  ~ShardWriter();
  ShardWriter(const ShardWriter&) = delete;
  ShardWriter& operator=(const ShardWriter&) = delete;

  /// Converts to the spec's dtype (the only rounding), block by block, and writes. The tensor may
  /// be strided and on any device; only floating dtypes are converted. Throws std::logic_error for
  /// a name that is not this rank's, was written before, or has another shape; InputError for a
  /// finite value that the dtype cannot hold; std::runtime_error for NaN or infinity, and with
  /// errno's text if the disk fails.
  /// Rows [first, first + rows.size(0)) may come alone; each row must be written once.
  void write(const std::string& name, const at::Tensor& rows, int64_t first = 0);
  /// Copies a tensor from its place in a file of `dir`, block by block. Throws std::logic_error for
  /// a name that is not this rank's or not to be copied; InputError if the file cannot be read.
  void copy(const std::string& name, const std::filesystem::path& dir);
  /// Flushes this rank's files. Throws std::logic_error naming a tensor of `mine` that was never
  /// written.
  void finish();

 private:
  struct OpenShard;
  struct OpenTensor;
  /// Throws std::logic_error for a name that is not this rank's.
  OpenTensor tensor_named(const std::string& name);

  std::vector<OpenShard> shards_;
};

}  // namespace dotresize
