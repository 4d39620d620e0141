// copy_checkpoint FROM TO MAX_SHARD_BYTES: reads a model directory's weights and writes them again,
// for interop_test.py.
#include <ATen/ATen.h>

#include <exception>
#include <iostream>
#include <string>

#include "base/files/durable_file.h"
#include "base/process/program.h"
#include "worker/checkpoint/reader.h"
#include "worker/checkpoint/writer.h"

namespace {

void copy_checkpoint(const std::string& from, const std::string& to, int64_t max_shard_bytes) {
  const dotresize::CheckpointReader reader(from);
  std::vector<dotresize::TensorSpec> specs;
  for (const std::string& name : reader.names()) {
    const auto shape = reader.shape(name);
    specs.push_back({name, reader.get(name, shape).scalar_type(), shape});
  }
  const auto layout = dotresize::make_shard_layout(specs, max_shard_bytes);
  dotresize::create_shards(to, layout);
  const std::vector<std::string> names = reader.names();
  dotresize::ShardWriter writer(to, layout, {names.begin(), names.end()});
  for (const auto& spec : specs) {
    writer.write(spec.name, reader.get(spec.name, spec.shape));
  }
  writer.finish();
  dotresize::write_file_atomically(to + "/model.safetensors.index.json", index_json(layout));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) {
    std::cerr << "usage: copy_checkpoint FROM TO MAX_SHARD_BYTES\n";
    return dotresize::kExitUsage;
  }
  try {
    copy_checkpoint(argv[1], argv[2], std::stoll(argv[3]));
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
    return dotresize::kExitJobFailed;
  }
  return dotresize::kExitOk;
}
