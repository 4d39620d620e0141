#include "worker/calibration/units/unit_cut.h"

#include <algorithm>
#include <array>
#include <stdexcept>

namespace dotresize {

const UnitCut& cut_of(const Unit& unit) {
  constexpr std::array kCuts = {&kFeaturesCut, &kExpertsCut, &kValueChannelsCut};
  const auto found =
      std::ranges::find_if(kCuts, [&](const UnitCut* cut) { return cut->unit == &unit; });
  if (found == kCuts.end()) throw std::logic_error("no cut of " + std::string(unit.name));
  return **found;
}

}  // namespace dotresize
