#pragma once

#include "worker/calibration/calibration_job.h"
#include "worker/calibration/junction_groups.h"
#include "worker/comm/communicator.h"

namespace dotresize {

/// Solves the maps of all junctions that do not share one, group by group, from the passes to the
/// journal. All ranks solve side by side. Collective.
void solve_own_maps(Communicator& comm, const CalibrationJob& job, PipelinePasses& passes,
                    const CalibrationObserver& observer);

}  // namespace dotresize
