#pragma once

#include <optional>

#include "base/phase_clock.h"
#include "worker/calibration/aligned_maps.h"
#include "worker/calibration/calibration_job.h"

namespace dotresize {

/// Returns the maps of the output, or nothing if no junction is mapped. All maps must be in the
/// journal. References outlive the result. Collective.
std::optional<AlignedMaps> maps_of_output(Communicator& comm, const CalibrationJob& job,
                                          const ModelConfig& output, PhaseClock& clock);

/// Folds the rotated maps of the journal into the sublayers of this rank's shard, and into the
/// embedding and the head on the first and last rank (docs/method.md, "Folding"). All maps must be
/// in the journal. The matrices of the vocabulary are read, folded and passed on in blocks of rows.
/// If no junction is mapped, all tensors are copied. Collective.
void fold_stage(Communicator& comm, const CalibrationJob& job, FoldedModelSink& sink,
                PhaseClock& clock);

}  // namespace dotresize
