#include "worker/commands/verify/verify_command.h"

#include <ATen/ATen.h>
#include <fmt/core.h>

#include <nlohmann/json.hpp>

#include "base/program.h"
#include "worker/commands/token_input.h"
#include "worker/commands/verify/verify_against.h"
#include "worker/commands/verify/verify_output.h"

namespace dotresize {

int verify_command(const VerifyRequest& request, bool json) {
  const c10::InferenceMode no_autograd;
  VerifyResult result = verify_output(request.dir);
  if (!request.against.empty()) {
    const std::filesystem::path cache_dir = token_cache_dir(request.source);
    verify_against(request, cache_dir, result.problems);
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
    fmt::print("{}: {} files, {} tensors, {} parameters, {}\n", request.dir.string(), result.files,
               result.tensors, result.parameters,
               result.problems.empty() ? "OK" : fmt::format("{} problems", result.problems.size()));
  }
  return result.problems.empty() ? kExitOk : kExitBadData;
}

}  // namespace dotresize
