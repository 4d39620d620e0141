#include "job/plan/allocate/choices.h"

#include <algorithm>
#include <functional>
#include <map>

#include "job/model/model_size.h"

namespace dotresize {
namespace {

/// Orders choices of several units. Of choices with equally many bytes the first one stays. A stock
/// output makes the same choice for all layers, so their order does not depend on single tensors.
std::vector<Choice> by_bytes(const ModelConfig& config, const ResolvedJob& job, int64_t sublayer,
                             const std::vector<Choice>& choices) {
  const StoredDtypes& dtypes = job.output.dtypes;
  const std::vector<int64_t> bytes = bytes_of_choices(
      config, job.stock_output() ? StoredDtypes{dtypes.main, {}} : dtypes, sublayer, choices);
  std::map<int64_t, Choice, std::greater<>> ordered;
  for (std::size_t i = 0; i < choices.size(); ++i) ordered.emplace(bytes[i], choices[i]);
  std::vector<Choice> found;
  found.reserve(ordered.size());
  for (const auto& [of_choice, choice] : ordered) found.push_back(choice);
  return found;
}

}  // namespace

std::vector<Choice> choices(const ModelConfig& config, const ResolvedJob& job, int64_t sublayer) {
  const LayerSpec& layer = config.layers.at(static_cast<std::size_t>(layer_of(sublayer)));
  std::vector<Choice> found;
  for (const Unit* unit : job.target.allocation->units) {
    if (!unit->is_in(sublayer)) continue;
    for (const int64_t size : unit->sizes(layer, job.mlp->round_to)) {
      const bool whole = size == unit->size(layer);
      if (!whole || found.empty()) found.push_back({unit, size});
    }
  }
  const bool may_go =
      job.target.allocation && !job.stock_output() && main_unit(sublayer).least(layer) == 0;
  if (may_go) found.push_back({&main_unit(sublayer), 0});
  const bool of_one_unit = std::ranges::all_of(
      found, [&](const Choice& choice) { return choice.unit == found.front().unit; });
  return of_one_unit ? found : by_bytes(config, job, sublayer, found);
}

std::vector<int64_t> bytes_of_choices(const ModelConfig& config, const StoredDtypes& dtypes,
                                      int64_t sublayer, const std::vector<Choice>& choices) {
  const auto layer = static_cast<std::size_t>(layer_of(sublayer));
  ModelConfig output = config;
  output.files.dtypes = dtypes;
  const int64_t width = config.hidden_size;
  std::vector<int64_t> bytes;
  for (const auto& [unit, size] : choices) {
    output.layers[layer] = config.layers[layer];
    unit->set_size(size, output.layers[layer]);
    bytes.push_back(sublayer_size(output, sublayer, width, width, /*folded=*/false).bytes);
  }
  return bytes;
}

}  // namespace dotresize
