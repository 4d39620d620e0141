#pragma once

#include <cstdint>
#include <functional>
#include <string_view>

#include "base/phase_clock.h"
#include "worker/calibration/calibration_job.h"

namespace dotresize {

/// Callbacks on the schedule's thread. They must be quick.
struct CalibrationObserver {
  /// `tokens` more tokens have gone through this rank's part of the model.
  std::function<void(int64_t tokens)> tokens_seen;
  /// `junctions` more junctions are solved, on all ranks together. Every rank gets the same calls.
  std::function<void(int64_t junctions)> junctions_solved;
  /// Same as junctions_solved, for junctions that an interrupted run had solved.
  std::function<void(int64_t junctions)> junctions_found;
};

// The schedules (docs/method.md, "Which activations"; docs/architecture.md, "Three schedules").
// Each writes every map and the diagnostics of its junctions to the journal. Collective.

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

/// Writes an output without maps: the cut tensors of its sublayers, and copies of the source's
/// tensors otherwise. Collective.
void write_without_maps(Communicator& comm, const CalibrationJob& job, FoldedModelSink& sink,
                        PhaseClock& clock);

using CalibrateFunction = decltype(&calibrate_pipeline);

/// Returns the function of a schedule (job/plan/schedule.h). Throws std::invalid_argument if the
/// name is unknown.
CalibrateFunction calibrate_function(std::string_view schedule);

}  // namespace dotresize
