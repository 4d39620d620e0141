#pragma once

#include <cstdint>
#include <vector>

#include "worker/calibration/calibration.h"
#include "worker/comm/communicator.h"

namespace dotresize {

/// Folds this rank's sublayers, once all of its junctions are solved (docs/method.md, "Folding").
/// `solutions` are those of its mapped junctions, in order. `width` is that of the junction which
/// the rank's first sublayer reads: the last one of the rank before, whose M_inv is received.
/// Collective.
void fold_stage(Communicator& comm, const CalibrationJob& job, int64_t width,
                const std::vector<JunctionSolution>& solutions, FoldedModelSink& sink,
                PhaseClock& clock);

}  // namespace dotresize
