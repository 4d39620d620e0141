#pragma once

#include <ATen/core/Tensor.h>

#include <filesystem>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "worker/checkpoint/writer.h"

namespace dotresize {

using NamedTensors = std::vector<std::pair<std::string, at::Tensor>>;

/// Returns the specs that describe `tensors` unchanged.
std::vector<TensorSpec> specs_of(const NamedTensors& tensors);

/// Returns the names of all tensors in all shards.
std::set<std::string> names_of(const ShardLayout& layout);

/// Writes shards and index into `dir`, at most `max_shard_bytes` per shard.
ShardLayout write_shards(const std::filesystem::path& dir, const NamedTensors& tensors,
                         int64_t max_shard_bytes);

/// Writes model.safetensors into `dir`.
void write_single_file(const std::filesystem::path& dir, const NamedTensors& tensors);

}  // namespace dotresize
