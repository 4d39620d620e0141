#pragma once

#include "worker/calibration/calibration_job.h"
#include "worker/calibration/junction_groups.h"
#include "worker/comm/communicator.h"

namespace dotresize {

// One map that all junctions share (docs/method.md, "Sharing maps"). The sums of each junction go
// to the journal. The rank that owns junction 0 scales them, adds them up in the order of the
// junctions, and solves. So the result does not depend, bit by bit, on the number of ranks or
// groups.

/// Writes the sums of all mapped junctions, and the basis of their second pass, to the journal.
/// Collective.
void take_shared_sums(Communicator& comm, const CalibrationJob& job, PipelinePasses& passes,
                      PhaseClock& clock);

/// Solves the job's map from passes over the tokens, or from its statistics. Each rank describes
/// its own junctions. Collective.
void solve_shared_map(Communicator& comm, const CalibrationJob& job, PipelinePasses& passes,
                      const CalibrationObserver& observer, PhaseClock& clock);

}  // namespace dotresize
