#pragma once

#include <string_view>

#include "base/phase_clock.h"
#include "worker/calibration/calibration_job.h"
#include "worker/comm/communicator.h"

namespace dotresize {

// The schedules (docs/method.md, "Which activations"; docs/architecture.md, "Three schedules").
// Each writes every map and the diagnostics of its junctions to the journal, and ends with
// fold_stage(). Collective.

/// `activations: original`: maps see the dense model. Ranks are pipeline stages.
void calibrate_pipeline(Communicator& comm, const CalibrationJob& job, FoldedModelSink& sink,
                        const CalibrationObserver& observer, PhaseClock& clock);

/// `activations: original` for ranks without memory for a stage: ranks share the tokens and take
/// them through the dense model one sublayer at a time.
void calibrate_layerwise(Communicator& comm, const CalibrationJob& job, FoldedModelSink& sink,
                         const CalibrationObserver& observer, PhaseClock& clock);

/// `activations: compressed`: each map sees the error of the maps before it. Ranks share the
/// tokens.
void calibrate_token_parallel(Communicator& comm, const CalibrationJob& job, FoldedModelSink& sink,
                              const CalibrationObserver& observer, PhaseClock& clock);

using CalibrateFunction = decltype(&calibrate_pipeline);

/// Returns the function of a schedule (job/plan/schedule.h). Throws std::invalid_argument if the
/// name is unknown.
CalibrateFunction calibrate_function(std::string_view schedule);

}  // namespace dotresize
