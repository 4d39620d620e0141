#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "base/phase_clock.h"
#include "job/plan/allocate/allocation.h"
#include "job/plan/resolved_job.h"
#include "worker/calibration/calibration_job.h"
#include "worker/calibration/cut_tensors.h"
#include "worker/calibration/storage/journal.h"
#include "worker/calibration/sublayer_sums.h"
#include "worker/comm/communicator.h"

namespace dotresize {

// Smaller MLPs and attentions (docs/method.md). Before the calibration proper, the inputs of the
// dense model's out_proj (features of an MLP, or outputs of an attention's heads) are summed over
// the tokens. One rank cuts each sublayer: the rank of its stage, or the ranks in turn if they
// share the tokens. The journal keeps the changed tensors under their names in the checkpoint. The
// rest of the calibration reads the model with these replacements.
//
// An allocation first removes as much of each sublayer as it might, and keeps the predicted loss
// increase at each width and the order in which features go. All ranks read these curves from the
// journal and derive the same widths. Then the sublayers are cut. The sums have d_ff² numbers for
// each MLP and have to wait for the curves of all sublayers. They are kept on the host, or summed
// again.

/// Windows of an allocation. A single window is in both.
struct AllocationWindows {
  TokenRound fitted;
  TokenRound held_out;

  bool has_others() const { return held_out.numbers != fitted.numbers; }
};

/// Returns the curve of each sublayer that may be cut, in their order. Entries of `curves` are not
/// computed again; they include the gradients of both sets of windows. `kept` receives the sums of
/// features that were computed, if the plan keeps them. Ranks are stages of a pipeline. The result
/// is the same on every rank. Collective.
std::vector<SublayerCurve> measure_curves(Communicator& comm, const CalibrationJob& dense,
                                          const ResolvedJob& job, Journal& curves,
                                          const AllocationWindows& windows,
                                          std::vector<SublayerSums>& kept,
                                          const CalibrationObserver& observer, PhaseClock& clock);

/// Cuts the sublayers of `dense` to the sizes of `cut`, except those in the journal.
/// Ranks are pipeline stages or share the tokens, as in the job's schedule; then there is one
/// round, without gradients, and only MLPs are cut. The result does not depend, bit by bit, on the
/// number of ranks or groups. Collective.
void cut_sublayers(Communicator& comm, const CalibrationJob& dense, const ResolvedJob& job,
                   const ModelConfig& cut, const CutSums& from, const CalibrationObserver& observer,
                   PhaseClock& clock);

/// Returns the files with the tensors that replace the dense model's; valid after cut_sublayers.
/// `for_trial`: as in CutSums.
std::vector<std::filesystem::path> cut_files(const Journal& journal, const ModelConfig& dense,
                                             const ModelConfig& cut, bool for_trial = false);

/// Diagnostics of one cut sublayer, summed over its experts.
struct CutDiagnostics {
  /// Sum over the matrices of Removal::loss_increases.back() or CutValues::predicted_loss_increase.
  double predicted_loss_increase = 0.0;
  /// Experts that no token has chosen, whose features were cut with the identity as H.
  int64_t unseen_experts = 0;
};

/// Reads the diagnostics of a sublayer that is smaller in `cut` than in `dense`.
CutDiagnostics cut_diagnostics(const Journal& journal, const ModelConfig& dense,
                               const ModelConfig& cut, int64_t sublayer);

}  // namespace dotresize
