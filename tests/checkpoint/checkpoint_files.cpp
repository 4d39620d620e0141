#include "tests/checkpoint/checkpoint_files.h"

#include <limits>

#include "base/files/durable_file.h"

namespace dotresize {
namespace fs = std::filesystem;

std::vector<TensorSpec> specs_of(const NamedTensors& tensors) {
  std::vector<TensorSpec> specs;
  for (const auto& [name, tensor] : tensors) {
    specs.push_back({name, tensor.scalar_type(), tensor.sizes().vec()});
  }
  return specs;
}

std::set<std::string> names_of(const ShardLayout& layout) {
  std::set<std::string> names;
  for (const ShardLayout::Shard& shard : layout.shards) {
    for (const TensorSpec& spec : shard.tensors) names.insert(spec.name);
  }
  return names;
}

ShardLayout write_shards(const fs::path& dir, const NamedTensors& tensors,
                         int64_t max_shard_bytes) {
  const ShardLayout layout = make_shard_layout(specs_of(tensors), max_shard_bytes);
  create_shards(dir, layout);
  ShardWriter writer(dir, layout, names_of(layout));
  for (const auto& [name, tensor] : tensors) {
    writer.write(name, tensor);
  }
  writer.finish();
  write_file_atomically(dir / "model.safetensors.index.json", index_json(layout));
  return layout;
}

void write_single_file(const fs::path& dir, const NamedTensors& tensors) {
  write_shards(dir, tensors, std::numeric_limits<int64_t>::max());
  fs::rename(dir / "model-00001-of-00001.safetensors", dir / "model.safetensors");
  fs::remove(dir / "model.safetensors.index.json");
}

}  // namespace dotresize
