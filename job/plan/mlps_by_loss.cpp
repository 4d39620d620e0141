#include "job/plan/mlps_by_loss.h"

#include <algorithm>
#include <stdexcept>

#include "job/model/model_size.h"
#include "job/plan/loss_allocation.h"
#include "job/plan/net_size.h"

namespace dotresize {
namespace {

int64_t mlp_of_layer(int64_t layer) { return 2 * layer + 1; }

/// Features of all MLPs and experts that are removed.
int64_t removed_features(const ModelConfig& config, const MlpTarget& target) {
  const ModelConfig average = with_cut_mlps(config, target);
  int64_t removed = 0;
  for (int64_t layer = 0; layer < config.num_layers; ++layer) {
    const int64_t s = mlp_of_layer(layer);
    removed += mlp_count(config, s) * (mlp_width(config, s) - mlp_width(average, s));
  }
  return removed;
}

}  // namespace

std::vector<int64_t> possible_mlp_widths(const ModelConfig& config, const MlpTarget& target,
                                         int64_t sublayer) {
  const int64_t all = mlp_width(config, sublayer);
  const int64_t least = target.allocated
                            ? target.round_to
                            : all - removed_features(config, target) / mlp_count(config, sublayer);
  std::vector<int64_t> widths = {all};
  for (int64_t width = (all - 1) / target.round_to * target.round_to;
       width >= target.round_to && width > least - target.round_to; width -= target.round_to) {
    widths.push_back(width);
  }
  return widths;
}

ModelConfig with_mlps_by_loss(const ModelConfig& config, const ResolvedJob& job,
                              const std::vector<std::vector<double>>& rises) {
  const ModelConfig output = output_model_config(config, job, job.widths);
  std::vector<std::vector<int64_t>> widths;
  std::vector<LossCurve> curves;
  int64_t parameters = 0;  // of features, with the same width for all
  for (int64_t layer = 0; layer < config.num_layers; ++layer) {
    const int64_t s = mlp_of_layer(layer);
    const int64_t of_feature = feature_parameters(output, s);
    parameters += of_feature * mlp_width(output, s);
    widths.push_back(possible_mlp_widths(config, job.mlp.value(), s));
    LossCurve& curve = curves.emplace_back();
    curve.rises = rises.at(static_cast<std::size_t>(layer));
    for (const int64_t width : widths.back()) curve.parameters.push_back(of_feature * width);
  }
  const std::vector<std::size_t> chosen = allocate_by_loss(curves, parameters);
  ModelConfig cut = config;
  for (std::size_t layer = 0; layer < chosen.size(); ++layer) {
    cut.intermediate_sizes.push_back(widths[layer].at(chosen[layer]));
  }
  return cut;
}

bool mlp_parameters_known(const ModelConfig& config, const ResolvedJob& job) {
  if (!job.mlp || !job.mlp->by_loss) return true;
  const ModelConfig output = output_model_config(config, job, job.widths);
  const auto alike = [&](int64_t s) {
    return mlp_width(config, s) == mlp_width(config, 1) &&
           feature_parameters(output, s) == feature_parameters(output, 1);
  };
  for (int64_t layer = 0; layer < config.num_layers; ++layer) {
    if (!alike(mlp_of_layer(layer))) return false;
  }
  return mlp_width(config, 1) % job.mlp->round_to == 0 &&
         mlp_width(output, 1) % job.mlp->round_to == 0;
}

}  // namespace dotresize
