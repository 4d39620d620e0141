#pragma once

#include "base/phase_clock.h"
#include "worker/calibration/calibration.h"
#include "worker/transformer/fold_sublayer.h"

namespace dotresize {

/// Folds the sublayers of this rank's shard, and the embedding and the head of the ends, with the
/// maps of the journal (docs/method.md, "Folding"), rotated into each other. All of them are there,
/// of these `widths`. The vocabulary's matrices are read, folded and handed on by blocks of rows.
/// Collective.
void fold_stage(Communicator& comm, const CalibrationJob& job, const JunctionWidths& widths,
                FoldedModelSink& sink, PhaseClock& clock);

/// Parts of it. A sublayer whose in_proj is folded, folded with the map behind it (without M: the
/// identity) and its shortcut in this form, with its factors, if it has any.
SublayerWeights fold_behind(SublayerWeights weights, const JunctionMap& map,
                            const ShortcutFactors& factors, const ShortcutForm& form);
/// `map`: of junction 0, and of the last one.
void fold_embedding_rows(const CalibrationJob& job, const JunctionMap& map, FoldedModelSink& sink,
                         PhaseClock& clock);
void fold_head_rows(const CalibrationJob& job, const JunctionMap& map, FoldedModelSink& sink,
                    PhaseClock& clock);

}  // namespace dotresize
