#pragma once

#include <cstdint>
#include <vector>

#include "worker/calibration/calibration.h"
#include "worker/calibration/junction_groups.h"

namespace dotresize {

// Neighbouring junctions that share a map (docs/method.md, "Sharing maps"). The sums of each
// junction go to the journal. The rank that owns the first junction of a map scales them, adds them
// up in the order of the junctions, and solves. So the result does not depend, bit by bit, on the
// number of ranks or groups.

/// Writes the sums of all mapped junctions, and the bases of their second pass, to the journal.
/// Collective.
void take_shared_sums(Communicator& comm, const CalibrationJob& job, PipelinePasses& passes,
                      PhaseClock& clock);

/// Solves every map of the job from passes over the tokens, or from its statistics. Each rank
/// describes its own junctions. Collective.
void solve_shared_maps(Communicator& comm, const CalibrationJob& job, PipelinePasses& passes,
                       const CalibrationObserver& observer, PhaseClock& clock);

}  // namespace dotresize
