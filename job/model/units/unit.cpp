#include "job/model/units/unit.h"

#include <algorithm>
#include <array>

namespace dotresize {
namespace {

constexpr std::array kUnits = {&kFeatures, &kExperts, &kValueChannels};

}  // namespace

std::span<const Unit* const> units() { return kUnits; }

std::vector<int64_t> sizes_in_steps(int64_t all, int64_t step) {
  std::vector<int64_t> sizes = {all};
  for (int64_t size = (all - 1) / step * step; size > 0; size -= step) sizes.push_back(size);
  return sizes;
}

bool has_unit(const ModelConfig& config, const Unit& unit) {
  if (unit.of_attentions) return config.value_heads_narrow();
  return &unit == &kFeatures || std::ranges::any_of(config.layers, [](const LayerSpec& layer) {
    return layer.mlp.mixture.has_value();
  });
}

const Unit& main_unit(int64_t sublayer) {
  return is_attention(sublayer) ? kValueChannels : kFeatures;
}

const Unit* cut_unit(const LayerSpec& dense, const LayerSpec& cut, int64_t sublayer) {
  const auto found = std::ranges::find_if(kUnits, [&](const Unit* unit) {
    return unit->is_in(sublayer) && unit->size(cut) < unit->size(dense);
  });
  return found == kUnits.end() ? nullptr : *found;
}

}  // namespace dotresize
