#include "worker/calibration/calibration.h"

#include <algorithm>
#include <array>
#include <stdexcept>
#include <string>

#include "worker/calibration/fold_stage.h"

namespace dotresize {
namespace {

struct Row {
  std::string_view name;
  CalibrateFunction calibrate;
};

constexpr std::array<Row, 3> kRows = {{
    {"pipeline", calibrate_pipeline},
    {"layerwise", calibrate_layerwise},
    {"token_parallel", calibrate_token_parallel},
}};

}  // namespace

void write_without_maps(Communicator& comm, const CalibrationJob& job, FoldedModelSink& sink,
                        PhaseClock& clock) {
  sink.begin(job.widths);
  fold_stage(comm, job, sink, clock);
}

CalibrateFunction calibrate_function(std::string_view schedule) {
  const auto found = std::ranges::find(kRows, schedule, &Row::name);
  if (found == kRows.end()) {
    throw std::invalid_argument("no such schedule: " + std::string(schedule));
  }
  return found->calibrate;
}

}  // namespace dotresize
