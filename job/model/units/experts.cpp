#include <algorithm>

#include "job/model/units/unit.h"

namespace dotresize {
namespace {

/// Returns the fewest experts among which a token finds its own: in the groups that are open to it,
/// each of which is as good as its two best experts together.
int64_t least_experts(const LayerSpec& layer) {
  if (!layer.mlp.mixture) return 0;
  const MixtureSpec& mixture = *layer.mlp.mixture;
  const int64_t of_token =
      (mixture.experts_per_token + mixture.groups_per_token - 1) / mixture.groups_per_token;
  return std::min(mixture.experts, mixture.groups * std::max<int64_t>(of_token, 2));
}

/// Every group loses equally many.
std::vector<int64_t> sizes_of_experts(const LayerSpec& layer, int64_t /*round_to*/) {
  if (!layer.mlp.mixture) return {0};
  const MixtureSpec& mixture = *layer.mlp.mixture;
  std::vector<int64_t> sizes = sizes_in_steps(mixture.experts, mixture.groups);
  std::erase_if(sizes, [&](int64_t size) { return size < least_experts(layer); });
  return sizes;
}

}  // namespace

constinit const Unit kExperts{
    .name = "experts",
    .of_attentions = false,
    .key = "expert_counts",
    .report = {.left = "experts", .source = "source_experts", .all = "experts"},
    .parts = "experts",
    .in_model =
        [](const ModelConfig& config) {
          return std::ranges::any_of(
              config.layers, [](const LayerSpec& layer) { return layer.mlp.mixture.has_value(); });
        },
    .size =
        [](const LayerSpec& layer) { return layer.mlp.mixture ? layer.mlp.mixture->experts : 0; },
    .set_size =
        [](int64_t size, LayerSpec& layer) {
          if (layer.mlp.mixture) layer.mlp.mixture->experts = size;
        },
    .least = least_experts,
    .divisor = [](const LayerSpec& layer) -> int64_t {
      return layer.mlp.mixture ? layer.mlp.mixture->groups : 1;
    },
    .sizes = sizes_of_experts};

}  // namespace dotresize
