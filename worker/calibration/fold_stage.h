#pragma once

#include <optional>

#include "base/phase_clock.h"
#include "worker/calibration/aligned_maps.h"
#include "worker/calibration/calibration.h"

namespace dotresize {

/// The maps of the output, all of which are in the journal; nothing if it has none. References
/// outlive what is returned. Collective.
std::optional<AlignedMaps> maps_of_output(Communicator& comm, const CalibrationJob& job,
                                          const ModelConfig& output, PhaseClock& clock);

/// Folds the sublayers of this rank's shard, and the embedding and the head of the ends, with the
/// maps of the journal (docs/method.md, "Folding"), rotated into each other. All of them are
/// there. The vocabulary's matrices are read, folded and handed on by blocks of rows. Without maps
/// all of it goes on as it is. Collective.
void fold_stage(Communicator& comm, const CalibrationJob& job, FoldedModelSink& sink,
                PhaseClock& clock);

}  // namespace dotresize
