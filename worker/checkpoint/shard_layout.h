#pragma once

#include <c10/core/ScalarType.h>

#include <cstdint>
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

}  // namespace dotresize
