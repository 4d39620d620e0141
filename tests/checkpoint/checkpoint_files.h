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

/// The specs of tensors as they are.
std::vector<TensorSpec> specs_of(const NamedTensors& tensors);

/// Of all tensors.
std::set<std::string> names_of(const ShardLayout& layout);

/// Writes shards and index into `dir`, with `max_shard_bytes` per shard.
ShardLayout write_shards(const std::filesystem::path& dir, const NamedTensors& tensors,
                         int64_t max_shard_bytes);

/// Writes model.safetensors into `dir`.
void write_single_file(const std::filesystem::path& dir, const NamedTensors& tensors);

}  // namespace dotresize
