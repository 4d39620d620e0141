#include "worker/commands/verify/verify_output.h"

#include <ATen/ATen.h>

#include "base/errors.h"
#include "base/printable.h"
#include "job/model/model_config.h"
#include "job/model/tensor_table.h"
#include "worker/checkpoint/dtypes.h"
#include "worker/checkpoint/finite.h"
#include "worker/checkpoint/reader.h"
#include "worker/transformer/shortcut_check.h"

namespace dotresize {
namespace fs = std::filesystem;
namespace {

using Problems = std::vector<std::string>;

bool is_there(const CheckpointReader& reader, const std::string& name,
              const std::vector<int64_t>& shape) {
  return reader.has(name) && reader.shape(name) == shape;
}

void verify_dtypes(const CheckpointReader& reader, const ModelConfig& config, Problems& problems) {
  if (config.dtype.empty()) return;
  for (const auto& [name, shape] : expected_shapes(config)) {
    if (!is_there(reader, name, shape)) continue;
    const std::string dtype = dtype_name(reader.get(name, shape).scalar_type());
    if (dtype == config.dtype) continue;
    problems.push_back("tensor " + in_quotes(name) + " is " + dtype + ", config.json says " +
                       config.dtype);
  }
}

void verify_shortcuts(const CheckpointReader& reader, const ModelConfig& config,
                      Problems& problems) {
  for (const StoredTensor& stored : shard_tensors(config, 0, config.num_sublayers())) {
    if (stored.role != TensorRole::kShortcut) continue;
    if (!is_there(reader, stored.name, stored.shape)) continue;
    const at::Tensor shortcut = reader.get(stored.name, stored.shape);
    if (!all_finite(shortcut)) continue;
    if (const auto problem = shortcut_problem(shortcut, config.hidden_size)) {
      problems.push_back("tensor " + in_quotes(stored.name) + " " + *problem);
    }
  }
}

}  // namespace

VerifyResult verify_output(const fs::path& dir) {
  if (!fs::is_directory(dir)) throw InputError(dir.string() + ": no such directory");
  const ModelConfig config = read_model_config(dir);
  VerifyResult result = verify_model_dir(dir, expected_shapes(config));
  try {
    const CheckpointReader reader(dir);
    verify_dtypes(reader, config, result.problems);
    verify_shortcuts(reader, config, result.problems);
  } catch (const InputError& error) {
    // Of a checkpoint that cannot be opened verify_model_dir has said so already.
    if (result.problems.empty()) result.problems.emplace_back(error.what());
  }
  return result;
}

}  // namespace dotresize
