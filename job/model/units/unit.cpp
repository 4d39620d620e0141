#include "job/model/units/unit.h"

#include <algorithm>

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

/// Returns head_dim, then multiples of a 32nd of it. Queries and keys keep head_dim.
std::vector<int64_t> sizes_of_value_channels(const LayerSpec& layer, int64_t /*round_to*/) {
  const int64_t all = layer.attention.head_dim;
  return sizes_in_steps(all, std::max<int64_t>(1, all / 32));
}

/// Returns true if no attention has a gate, which multiplies all channels, or a memory in its
/// place.
bool narrows_in(const ModelConfig& config) {
  return std::ranges::none_of(config.layers, [](const LayerSpec& layer) {
    return layer.attention.gated || layer.attention.delta_net;
  });
}

}  // namespace

constinit const Unit kFeatures{
    .name = "features",
    .of_attentions = false,
    .key = "intermediate_sizes",
    .report = {.left = "width", .source = "intermediate_size", .all = "features"},
    .parts = "features",
    .in_model = [](const ModelConfig&) { return true; },
    .size = [](const LayerSpec& layer) { return layer.mlp.intermediate_size; },
    .set_size = [](int64_t size, LayerSpec& layer) { layer.mlp.intermediate_size = size; },
    .least = [](const LayerSpec& layer) -> int64_t { return layer.mlp.bias ? 1 : 0; },
    .sizes =
        [](const LayerSpec& layer, int64_t round_to) {
          return sizes_in_steps(layer.mlp.intermediate_size, round_to);
        }};

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

constinit const Unit kValueChannels{
    .name = "value_channels",
    .of_attentions = true,
    .in_stock = false,
    .key = "value_head_dims",
    .report = {.left = "value_head_dim", .source = "head_dim", .all = "value_head_dims"},
    .parts = "value channels",
    .in_model = narrows_in,
    .size = [](const LayerSpec& layer) { return layer.attention.value_head_dim; },
    .set_size = [](int64_t size, LayerSpec& layer) { layer.attention.value_head_dim = size; },
    .least = [](const LayerSpec& layer) -> int64_t { return layer.attention.output_bias ? 1 : 0; },
    .sizes = sizes_of_value_channels};

std::vector<int64_t> sizes_in_steps(int64_t all, int64_t step) {
  std::vector<int64_t> sizes = {all};
  for (int64_t size = (all - 1) / step * step; size > 0; size -= step) sizes.push_back(size);
  return sizes;
}

const Unit& main_unit(int64_t sublayer) {
  return **std::ranges::find_if(kUnits, [&](const Unit* unit) { return unit->is_in(sublayer); });
}

const Unit* cut_unit(const LayerSpec& dense, const LayerSpec& cut, int64_t sublayer) {
  const auto found = std::ranges::find_if(kUnits, [&](const Unit* unit) {
    return unit->is_in(sublayer) && unit->size(cut) < unit->size(dense);
  });
  return found == kUnits.end() ? nullptr : *found;
}

}  // namespace dotresize
