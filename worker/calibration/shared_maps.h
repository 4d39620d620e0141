#pragma once

#include <cstdint>
#include <vector>

#include "worker/calibration/calibration.h"
#include "worker/calibration/junction_groups.h"

namespace dotresize {

// Neighbouring junctions with one map (docs/method.md, "Sharing maps"). The sums of each junction
// go to the journal; the rank that owns the first junction of a map adds them up in the order of
// the junctions, scaled, and solves. So neither the number of ranks nor that of groups changes a
// bit of them.

/// The sums of all junctions with a map, and the bases of their second pass, into the journal.
/// Collective.
void take_shared_sums(Communicator& comm, const CalibrationJob& job, PipelinePasses& passes,
                      PhaseClock& clock);

/// Solves every map of the job from the passes over the tokens; each rank describes its own
/// junctions. Collective.
void solve_shared_maps(Communicator& comm, const CalibrationJob& job, PipelinePasses& passes,
                       const CalibrationObserver& observer, PhaseClock& clock);

}  // namespace dotresize
