#include "worker/calibration/units/unit_cut.h"

#include <algorithm>
#include <stdexcept>

namespace dotresize {

const UnitCut& cut_of(const Unit& unit) {
  const auto found =
      std::ranges::find_if(kUnitCuts, [&](const UnitCut* cut) { return cut->unit == &unit; });
  if (found == kUnitCuts.end()) throw std::logic_error("no cut of " + std::string(unit.name));
  return **found;
}

}  // namespace dotresize
