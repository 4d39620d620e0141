#pragma once

#include "base/phase_clock.h"
#include "worker/calibration/calibration.h"

namespace dotresize {

/// Folds the sublayers of this rank's shard, and the embedding and the head of the ends, with the
/// maps of the journal (docs/method.md, "Folding"). All of them are there. The vocabulary's
/// matrices are read, folded and handed on by blocks of rows.
void fold_stage(const CalibrationJob& job, const RankShard& shard, FoldedModelSink& sink,
                PhaseClock& clock);

/// Parts of it. `map`: of junction 0, and of the last one.
void fold_embedding_rows(const CalibrationJob& job, const JunctionMap& map, FoldedModelSink& sink,
                         PhaseClock& clock);
void fold_head_rows(const CalibrationJob& job, const JunctionMap& map, FoldedModelSink& sink,
                    PhaseClock& clock);

}  // namespace dotresize
