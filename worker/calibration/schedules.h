#pragma once

#include <string_view>

#include "worker/calibration/calibration.h"

namespace dotresize {

using CalibrateFunction = void (*)(Communicator& comm, const CalibrationJob& job,
                                   FoldedModelSink& sink, const CalibrationObserver& observer,
                                   PhaseClock& clock);

/// What runs the schedule (job/plan/schedule.h) of this name. Throws std::invalid_argument if there
/// is no such schedule.
CalibrateFunction calibrate_function(std::string_view schedule);

}  // namespace dotresize
