#include "worker/commands/verify/verify_output.h"

#include <ATen/ATen.h>

#include "base/errors.h"
#include "base/in_quotes.h"
#include "job/model/model_config.h"
#include "worker/checkpoint/dtypes.h"
#include "worker/checkpoint/finite.h"
#include "worker/checkpoint/reader.h"
#include "worker/transformer/expected_shapes.h"
#include "worker/transformer/layout.h"
#include "worker/transformer/shortcut_check.h"

namespace dotresize {
namespace fs = std::filesystem;
namespace {

using Problems = std::vector<std::string>;

std::string dtype_name(at::ScalarType dtype) {
  for (const Dtype known : {Dtype::kFloat32, Dtype::kFloat16, Dtype::kBFloat16}) {
    if (scalar_type(known) == dtype) return to_string(known);
  }
  return c10::toString(dtype);
}

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
  for (int64_t sublayer = 0; sublayer < config.num_sublayers(); ++sublayer) {
    if (!config.has_shortcut(sublayer)) continue;
    const StoredTensor stored =
        sublayer_layout(config, sublayer, config.junction_widths.at(sublayer),
                        config.junction_widths.at(sublayer + 1))
            .shortcut;
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
