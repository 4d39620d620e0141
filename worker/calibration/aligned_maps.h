#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "base/phase_clock.h"
#include "job/model/shortcut_form.h"
#include "job/plan/junction_widths.h"
#include "worker/calibration/calibration.h"
#include "worker/maps/alignment.h"

namespace dotresize {

// Maps rotated into each other, junction after junction, so that what is left of the shortcuts has
// a low rank (docs/method.md, "Shortcuts"). With M_j the map of junction j as it was solved, the
// rotated one is M_j·R_j, and R_(j+1) = Q·R_j, Q being the turn between M_j and M_(j+1): so the
// decompositions need only the maps at both sides of a sublayer, and ranks make them side by side.
// Only products go from junction to junction. If a junction is narrower than the one before, Q
// depends on R_j.

/// Writes the alignment of the sublayer's maps to the journal, unless it is there or the sublayer
/// needs none: two maps that are rotated into each other, of which the second is not narrower. M_in
/// and M_out: of any floating dtype. `form`: of the sublayer.
void write_alignment(const CalibrationJob& job, int64_t sublayer, const ShortcutForm& form,
                     const JunctionMap& in, const JunctionMap& out, PhaseClock& clock);

/// Those of this rank's sublayers, of the maps in the journal, where all of them are. `widths`: of
/// the output. Collective.
void write_alignments(Communicator& comm, const CalibrationJob& job, const JunctionWidths& widths,
                      PhaseClock& clock);

/// The maps of the journal, rotated, from junction 0 on. Every rank can go to each of them: what it
/// finds does not depend on the number of ranks.
class AlignedMaps {
 public:
  /// References outlive the object. The alignments of all ranks are in the journal.
  AlignedMaps(const CalibrationJob& job, const JunctionWidths& widths, PhaseClock& clock)
      : job_(job), widths_(widths), clock_(clock), forms_(job.shortcut_forms(widths)) {}

  /// Goes on to the junction behind.
  void next();
  int64_t junction() const { return junction_; }
  /// Of this junction, in the fold dtype. Without M: the identity.
  JunctionMap map() const;
  /// What rotates the map: [k, k] float64; undefined: nothing does.
  const at::Tensor& R() const { return R_; }
  /// A of the shortcut to this junction, in the fold dtype; undefined if there is none.
  const at::Tensor& A() const { return A_; }

 private:
  at::Tensor rotated() const;
  void turn(int64_t sublayer);

  const CalibrationJob& job_;
  const JunctionWidths& widths_;
  PhaseClock& clock_;
  std::vector<ShortcutForm> forms_;  ///< of the sublayers
  int64_t junction_ = 0;
  at::Tensor R_;       ///< [k, k] float64; undefined: the identity
  JunctionMap whole_;  ///< of a last junction of full width, if it is rotated
  at::Tensor A_;
};

}  // namespace dotresize
