#include "job/plan/allocate/choices.h"

namespace dotresize {

std::vector<Choice> choices(const ModelConfig& config, const ResolvedJob& job, int64_t sublayer) {
  const LayerSpec& layer = config.layers.at(static_cast<std::size_t>(layer_of(sublayer)));
  std::vector<Choice> found;
  for (const Unit* unit : units()) {
    if (!unit->is_in(sublayer)) continue;
    for (const int64_t size : unit->sizes(layer, job.mlp->round_to)) {
      const bool whole = size == unit->size(layer);
      if (!whole || found.empty()) found.push_back({unit, size});
    }
  }
  const bool may_go =
      job.target.allocation && !job.stock_output() && !has_output_bias(config, sublayer);
  if (may_go) found.push_back({&main_unit(sublayer), 0});
  return found;
}

}  // namespace dotresize
