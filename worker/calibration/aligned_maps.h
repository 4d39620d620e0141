#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "base/phase_clock.h"
#include "job/model/model_config.h"
#include "worker/calibration/calibration_job.h"
#include "worker/maps/alignment.h"
#include "worker/transformer/fold_sublayer.h"

namespace dotresize {

// The maps are rotated one after the other, so that each shortcut is the identity plus a matrix of
// low rank (docs/method.md, "Shortcuts"). M_j is the map of junction j as it was solved. The
// rotated map is M_j·R_j with R_(j+1) = Q·R_j, where Q is the rotation that aligns M_(j+1) with
// M_j. The decompositions need only the maps at both sides of a sublayer, so ranks compute them
// side by side; only products go from junction to junction.

/// Product of the rotations up to a junction.
struct MapRotation {
  at::Tensor R;  ///< [k, k] float64; undefined: the identity
  // Factors of the shortcut into the junction, float64; undefined: no factor.
  at::Tensor A;
  at::Tensor B;  ///< only with oblique maps

  /// Advances by one sublayer. `alignment` is that of the maps as they were solved, of equal
  /// widths.
  void turn(const Alignment& alignment);
};

/// Rotated maps of the journal, visited in order from junction 0. Every rank can visit all of them.
/// The result does not depend on the number of ranks.
class AlignedMaps {
 public:
  /// Writes the missing alignments of this rank's sublayers to the journal. A shared map is rotated
  /// too. All maps must be in the journal.
  /// References outlive the object. `tied_norm` [d]: γ of the final norm if a stock output has tied
  /// embeddings, else undefined. If it is defined, M_inv is the transpose of M, also in the metric
  /// of the loss. Collective.
  AlignedMaps(Communicator& comm, const CalibrationJob& job, PhaseClock& clock,
              const at::Tensor& tied_norm);

  /// Moves on to the next junction.
  void next();
  int64_t junction() const { return junction_; }
  /// Returns this junction's map in the fold dtype. If M is undefined, the map is the identity.
  JunctionMap map() const;
  /// Returns the factors of the shortcut into this junction, in the fold dtype; undefined: no
  /// factor.
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
  /// Returns M·R and R'·M_inv of this junction in float64, or its map if R is undefined.
  JunctionMap rotated() const;

  const CalibrationJob& job_;
  PhaseClock& clock_;
  std::vector<ShortcutForm> forms_;  ///< by sublayer
  int64_t junction_ = 0;
  MapRotation rotation_;
  /// True if M_inv is the transpose of M, also for a map solved as oblique.
  bool orthonormal_ = false;
  JunctionMap whole_;  ///< rotated map of a last junction of full width; M undefined: the identity
};

/// Returns the maps of the output, or nothing if no junction is mapped. All maps must be in the
/// journal. References outlive the result. Collective.
std::optional<AlignedMaps> maps_of_output(Communicator& comm, const CalibrationJob& job,
                                          const ModelConfig& output, PhaseClock& clock);

}  // namespace dotresize
