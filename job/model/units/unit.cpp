#include "job/model/units/unit.h"

#include <algorithm>
#include <array>

namespace dotresize {
namespace {

constexpr std::array kUnits = {&kFeatures, &kValueChannels};

}  // namespace

std::span<const Unit* const> units() { return kUnits; }

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
