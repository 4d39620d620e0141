#include "worker/commands/eval/eval_command.h"

#include <ATen/ATen.h>
#include <fmt/core.h>

#include "base/program.h"
#include "worker/commands/console.h"
#include "worker/commands/eval/evaluation_output.h"
#include "worker/commands/token_input.h"

namespace dotresize {

int eval_command(const EvalRequest& request, bool json) {
  const c10::InferenceMode no_autograd;
  ProgressLines lines;
  Progress progress([&](const ProgressState& state) { lines.show(state); });
  const std::filesystem::path cache_dir = token_cache_dir(request.source);
  const std::vector<MeasuredModel> results = measure_models(request, cache_dir, progress);
  for (const std::string& warning : comparison_warnings(results)) {
    fmt::print(stderr, "dotresize-worker: warning: {}\n", warning);
  }
  fmt::print("{}", json ? evaluation_json(request, results) : evaluation_table(request, results));
  return kExitOk;
}

}  // namespace dotresize
