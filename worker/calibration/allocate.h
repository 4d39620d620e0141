#pragma once

#include "base/phase_clock.h"
#include "job/plan/joint_allocation.h"
#include "worker/calibration/calibration.h"
#include "worker/comm/communicator.h"

namespace dotresize {

/// `method.allocate: auto` (docs/method.md, "All widths by loss"): what each junction, each MLP and
/// each attention's values of the dense model are predicted to lose at every width, in three rounds
/// of passes over the tokens, and what follows from it. Rank 0 chooses, and the journal keeps it: a
/// job that goes on makes the same choice. The same on every rank, whatever their number.
/// Collective.
Allocation allocate(Communicator& comm, const CalibrationJob& dense, const ResolvedJob& job,
                    const CalibrationObserver& observer, PhaseClock& clock);

}  // namespace dotresize
