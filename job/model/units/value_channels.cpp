#include <algorithm>

#include "job/model/units/unit.h"

namespace dotresize {
namespace {

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

}  // namespace dotresize
