#pragma once

#include "base/phase_clock.h"
#include "worker/calibration/calibration_job.h"
#include "worker/comm/communicator.h"

namespace dotresize {

/// Folds the rotated maps of the journal into the sublayers of this rank's shard, and into the
/// embedding and the head on the first and last rank (docs/method.md, "Folding"). All maps must be
/// in the journal. The matrices of the vocabulary are read, folded and passed on in blocks of rows.
/// If no junction is mapped, all tensors are copied: an output without maps has the cut tensors of
/// its sublayers, and otherwise those of the source. Collective.
void fold_stage(Communicator& comm, const CalibrationJob& job, FoldedModelSink& sink,
                PhaseClock& clock);

}  // namespace dotresize
