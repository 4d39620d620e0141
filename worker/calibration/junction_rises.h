#pragma once

#include "base/phase_clock.h"
#include "job/plan/joint_allocation.h"
#include "worker/calibration/calibration.h"
#include "worker/comm/communicator.h"

namespace dotresize {

/// What the maps of the dense model's junctions, and the ranks of the shortcuts between them, are
/// predicted to add to the loss (docs/method.md, "All widths by loss"): two rounds of passes over
/// the tokens. Adds it to `rises`, which has that of MLPs and value heads. What is in the journal
/// is not computed again. The same on every rank, whatever their number. Collective.
void measure_junctions(Communicator& comm, const CalibrationJob& dense, const ResolvedJob& job,
                       const CalibrationObserver& observer, PhaseClock& clock,
                       PredictedRises& rises);

}  // namespace dotresize
