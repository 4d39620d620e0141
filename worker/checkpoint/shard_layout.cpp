#include "worker/checkpoint/shard_layout.h"

#include <c10/util/accumulate.h>

#include <cstdio>
#include <nlohmann/json.hpp>
#include <set>
#include <stdexcept>

namespace dotresize {
namespace {

std::string shard_file_name(size_t number, size_t count) {
  char name[64];
  std::snprintf(name, sizeof(name), "model-%05zu-of-%05zu.safetensors", number, count);
  return name;
}

}  // namespace

int64_t TensorSpec::elements() const { return c10::multiply_integers(shape); }

ShardLayout make_shard_layout(const std::vector<std::vector<TensorSpec>>& tensors_by_rank,
                              int64_t max_shard_bytes) {
  ShardLayout layout;
  std::set<std::string> names;
  for (size_t rank = 0; rank < tensors_by_rank.size(); ++rank) {
    int64_t shard_bytes = 0;
    bool needs_shard = true;  // ranks do not share files
    for (const TensorSpec& spec : tensors_by_rank[rank]) {
      if (!names.insert(spec.name).second) {
        throw std::logic_error("tensor " + spec.name + " is in the layout twice");
      }
      const int64_t bytes = spec.bytes();
      if (needs_shard || shard_bytes + bytes > max_shard_bytes) {
        layout.shards.push_back({"", static_cast<int>(rank), {}});
        shard_bytes = 0;
        needs_shard = false;
      }
      layout.shards.back().tensors.push_back(spec);
      shard_bytes += bytes;
      layout.total_bytes += bytes;
      layout.total_parameters += spec.elements();
    }
  }
  for (size_t i = 0; i < layout.shards.size(); ++i) {
    layout.shards[i].file = shard_file_name(i + 1, layout.shards.size());
  }
  return layout;
}

std::string index_json(const ShardLayout& layout) {
  nlohmann::json weight_map = nlohmann::json::object();
  for (const auto& shard : layout.shards) {
    for (const TensorSpec& spec : shard.tensors) {
      weight_map[spec.name] = shard.file;
    }
  }
  const nlohmann::json index = {
      {"metadata",
       {{"total_parameters", layout.total_parameters}, {"total_size", layout.total_bytes}}},
      {"weight_map", std::move(weight_map)},
  };
  return index.dump(2) + "\n";
}

}  // namespace dotresize
