#include "worker/commands/verify/verify_command.h"

#include <ATen/ATen.h>
#include <fmt/core.h>

#include <nlohmann/json.hpp>

#include "base/errors.h"
#include "base/files/partial_path.h"
#include "base/process/program.h"
#include "base/text/human_text.h"
#include "base/text/printable.h"
#include "base/text/sha256.h"
#include "job/model/read_model_config.h"
#include "job/model/tensor_table.h"
#include "worker/checkpoint/dtypes.h"
#include "worker/checkpoint/elements.h"
#include "worker/checkpoint/reader.h"
#include "worker/checkpoint/verify.h"
#include "worker/commands/token_input.h"
#include "worker/commands/verify/verify_against.h"
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

/// Returns a problem of a sublayer's tensor; nothing if it is correct or cannot show its maps.
std::optional<std::string> problem_of(const ModelConfig& config, int64_t sublayer, TensorRole role,
                                      const at::Tensor& tensor) {
  if (config.shortcut(sublayer).factors != 1) return {};  // oblique maps may stretch
  if (role == TensorRole::kShortcut) return shortcut_problem(tensor, config.hidden_size);
  return shortcut_factor_problem(tensor,
                                 config.form.junction_widths.at(static_cast<size_t>(sublayer) + 1));
}

void verify_shortcuts(const CheckpointReader& reader, const ModelConfig& config,
                      Problems& problems) {
  for (int64_t sublayer = 0; sublayer < config.num_sublayers(); ++sublayer) {
    for (const StoredTensor& stored : sublayer_tensors(config, sublayer)) {
      const bool factor = stored.role == TensorRole::kShortcutA;
      if (stored.role != TensorRole::kShortcut && !factor) continue;
      if (!is_there(reader, stored.name, stored.shape)) continue;
      const at::Tensor tensor = reader.get(stored.name, stored.shape);
      if (!all_finite(tensor)) continue;
      if (const auto problem = problem_of(config, sublayer, stored.role, tensor)) {
        problems.push_back("tensor " + in_quotes(stored.name) + " " + *problem);
      }
    }
  }
}

/// Checks an output directory by itself: verify_model_dir against its config.json, the stated
/// dtype, and shortcut_problem of every shortcut. Throws InputError if there is no such directory
/// or its config.json cannot be used.
VerifyResult verify_output(const fs::path& dir) {
  if (!fs::is_directory(dir)) throw InputError(dir.string() + ": no such directory");
  if (!is_model_of_dotresize(dir) && !fs::exists(dir / kSumsFile)) {
    throw InputError(dir.string() + ": not written by dotresize: it has neither " +
                     kReportDirectory + "/" + kReportFile + " nor SHA256SUMS");
  }
  const ModelConfig config = read_model_config(dir);
  VerifyResult result = verify_model_dir(dir, expected_shapes(config));
  try {
    const CheckpointReader reader(dir);
    verify_dtypes(reader, config, result.problems);
    verify_shortcuts(reader, config, result.problems);
  } catch (const InputError& error) {
    // verify_model_dir has already reported a checkpoint that cannot be opened.
    if (result.problems.empty()) result.problems.emplace_back(error.what());
  }
  return result;
}

}  // namespace

int verify_command(const VerifyRequest& request, bool json) {
  const c10::InferenceMode no_autograd;
  VerifyResult result = verify_output(request.dir);
  if (!request.against.empty()) {
    verify_against(request, token_cache_dir(request.source), result.problems);
  }
  if (json) {
    const nlohmann::json document = {{"ok", result.problems.empty()},
                                     {"problems", result.problems},
                                     {"files", result.files},
                                     {"tensors", result.tensors},
                                     {"parameters", result.parameters}};
    fmt::print("{}\n", document.dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
  } else {
    for (const std::string& problem : result.problems) fmt::print("{}\n", problem);
    fmt::print("{}: {}, {}, {}, {}\n", request.dir.string(), counted(result.files, "file"),
               counted(result.tensors, "tensor"), counted(result.parameters, "parameter"),
               result.problems.empty() ? "OK" : counted(result.problems.size(), "problem"));
  }
  return result.problems.empty() ? kExitOk : kExitBadData;
}

}  // namespace dotresize
