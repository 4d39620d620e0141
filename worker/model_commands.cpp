#include "worker/model_commands.h"

#include <ATen/ATen.h>
#include <fmt/core.h>

#include <cmath>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "job/errors.h"
#include "job/model_size.h"
#include "worker/checkpoint/verify.h"
#include "worker/model/expected_shapes.h"
#include "worker/run/evaluate_model.h"
#include "worker/run/token_input.h"

namespace dotresize {
namespace fs = std::filesystem;
namespace {

ShardPlan whole_model(const ModelConfig& config) {
  ShardPlan plan;
  plan.ranks.push_back({.first_sublayer = 0, .end_sublayer = config.num_sublayers()});
  return plan;
}

/// $XDG_CACHE_HOME/dotresize or ~/.cache/dotresize: nobody else writes there.
fs::path user_cache_dir() {
  if (const char* cache = std::getenv("XDG_CACHE_HOME")) return fs::path(cache) / "dotresize";
  if (const char* home = std::getenv("HOME")) return fs::path(home) / ".cache" / "dotresize";
  throw InputError("neither XDG_CACHE_HOME nor HOME says where to keep tokenised text");
}

}  // namespace

int eval_command(const fs::path& model_dir, const TokenSource& source, bool json) {
  const c10::InferenceMode no_autograd;
  const ModelConfig config = read_model_config(model_dir);
  SelfCommunicator self;
  const TokenWindows windows =
      load_token_windows(self, source, false, model_dir, config, user_cache_dir());
  const NegativeLogLikelihood sum =
      evaluate_model(self, CheckpointReader(model_dir), config, whole_model(config),
                     windows.windows, at::kFloat, at::kCPU, [](int64_t) {});
  const double perplexity = std::exp(sum.nll / static_cast<double>(sum.tokens));
  if (json) {
    const nlohmann::json result = {{"model", model_dir.string()},
                                   {"perplexity", perplexity},
                                   {"predicted_tokens", sum.tokens},
                                   {"seqlen", windows.windows.size(1)},
                                   {"parameters", stored_parameters(config)}};
    fmt::print("{}\n", result.dump(2));
  } else {
    fmt::print("perplexity {:.4f} over {} tokens in windows of {}\n", perplexity, sum.tokens,
               windows.windows.size(1));
  }
  return kExitOk;
}

int verify_command(const fs::path& dir, bool json) {
  const VerifyResult result = verify_model_dir(dir, expected_shapes(read_model_config(dir)));
  if (json) {
    const nlohmann::json document = {{"ok", result.problems.empty()},
                                     {"problems", result.problems},
                                     {"files", result.files},
                                     {"tensors", result.tensors},
                                     {"parameters", result.parameters}};
    fmt::print("{}\n", document.dump(2));
  } else {
    for (const std::string& problem : result.problems) fmt::print("{}\n", problem);
    fmt::print(
        "{}: {} files, {} tensors, {} parameters, {}\n", dir.string(), result.files, result.tensors,
        result.parameters,
        result.problems.empty() ? "all well" : fmt::format("{} problems", result.problems.size()));
  }
  return result.problems.empty() ? kExitOk : kExitBadData;
}

}  // namespace dotresize
