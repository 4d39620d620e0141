#include "job/model/units/unit.h"

#include <algorithm>

namespace dotresize {

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
