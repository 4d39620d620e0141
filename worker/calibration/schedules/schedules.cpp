#include "worker/calibration/schedules/schedules.h"

#include <array>
#include <stdexcept>
#include <string>
#include <utility>

namespace dotresize {

CalibrateFunction calibrate_function(std::string_view schedule) {
  static constexpr std::array<std::pair<std::string_view, CalibrateFunction>, 3> kSchedules = {{
      {"pipeline", calibrate_pipeline},
      {"layerwise", calibrate_layerwise},
      {"token_parallel", calibrate_token_parallel},
  }};
  for (const auto& [name, calibrate] : kSchedules) {
    if (name == schedule) return calibrate;
  }
  throw std::invalid_argument("no such schedule: " + std::string(schedule));
}

}  // namespace dotresize
