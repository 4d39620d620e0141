#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "base/phase_clock.h"
#include "job/model/shortcut_form.h"
#include "worker/calibration/calibration.h"
#include "worker/maps/alignment.h"
#include "worker/transformer/fold_sublayer.h"

namespace dotresize {

// Maps rotated into each other, junction after junction, so that what is left of the shortcuts has
// a low rank (docs/method.md, "Shortcuts"). With M_j the map of junction j as it was solved, the
// rotated one is M_j·R_j, and R_(j+1) = Q·R_j, Q being the turn between M_j and M_(j+1): so the
// decompositions need only the maps at both sides of a sublayer, and ranks make them side by side.
// Only products go from junction to junction. If a junction is narrower than the one before, Q
// depends on R_j.

/// The product of the turns up to a junction.
struct MapRotation {
  at::Tensor R;  ///< [k, k] float64; undefined: the identity
  // Of the shortcut to the junction, float64; undefined: it has none.
  at::Tensor A;
  at::Tensor B;  ///< of oblique maps

  /// Goes on along the alignment of the maps as they were solved, of which the second is not
  /// narrower.
  void turn(const Alignment& alignment);
  /// M·R in float64, or M itself.
  at::Tensor of(const at::Tensor& M) const;
  /// M·R and R'·M_inv in float64, or the map itself.
  JunctionMap of(const JunctionMap& map) const;
};

/// The maps of the journal, rotated, from junction 0 on. Every rank can go to each of them: what it
/// finds does not depend on the number of ranks.
class AlignedMaps {
 public:
  /// References outlive the object. Writes the alignments of this rank's sublayers to the journal,
  /// those that depend on no other; all maps are there. The one map of a stock output is turned as
  /// such a model wants it. `tied_norm` [d]: the final norm's γ, of a stock output with tied
  /// embeddings, else undefined. Then M_inv is the transpose of M, also in the metric of the loss.
  /// Collective.
  AlignedMaps(Communicator& comm, const CalibrationJob& job, PhaseClock& clock, bool stock,
              const at::Tensor& tied_norm);

  /// Goes on to the junction behind.
  void next();
  int64_t junction() const { return junction_; }
  /// Of this junction, in the fold dtype. Without M: the identity.
  JunctionMap map() const;
  /// Of the shortcut to this junction, in the fold dtype; undefined if it has none.
  ShortcutFactors factors() const {
    const auto folded = [&](const at::Tensor& factor) {
      return factor.defined() ? factor.to(job_.fold_dtype) : at::Tensor();
    };
    return {folded(rotation_.A), folded(rotation_.B)};
  }
  const ShortcutForm& form(int64_t sublayer) const {
    return forms_.at(static_cast<size_t>(sublayer));
  }

 private:
  bool is_narrower(int64_t sublayer) const;
  std::vector<int64_t> missing_alignments(const RankShard& shard) const;
  void write_alignments(const RankShard& shard);
  at::Tensor stock_rotation(const at::Tensor& tied_norm) const;
  JunctionMap rotated() const;
  void turn(int64_t sublayer);
  void turn_to_whole(int64_t sublayer);

  const CalibrationJob& job_;
  PhaseClock& clock_;
  std::vector<ShortcutForm> forms_;  ///< of the sublayers
  int64_t junction_ = 0;
  MapRotation rotation_;
  bool orthonormal_ = false;  ///< M_inv is the transpose of M, however the map was solved
  JunctionMap whole_;         ///< of a last junction of full width, if it is rotated
};

}  // namespace dotresize
