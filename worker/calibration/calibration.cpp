#include "worker/calibration/calibration.h"

#include <algorithm>
#include <array>
#include <stdexcept>
#include <string>

namespace dotresize {
namespace {

struct Row {
  std::string_view name;
  CalibrateFunction calibrate;
};

constexpr std::array<Row, 2> kRows = {{
    {"pipeline", calibrate_pipeline},
    {"token_parallel", calibrate_token_parallel},
}};

}  // namespace

CalibrateFunction calibrate_function(std::string_view schedule) {
  const auto found = std::ranges::find(kRows, schedule, &Row::name);
  if (found == kRows.end()) {
    throw std::invalid_argument("no such schedule: " + std::string(schedule));
  }
  return found->calibrate;
}

}  // namespace dotresize
