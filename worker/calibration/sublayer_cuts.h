#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "base/phase_clock.h"
#include "job/plan/resolved_job.h"
#include "worker/calibration/calibration.h"
#include "worker/calibration/cut_tensors.h"
#include "worker/calibration/storage/journal.h"
#include "worker/calibration/sublayer_sums.h"
#include "worker/comm/communicator.h"

namespace dotresize {

// Narrower MLPs and value heads (docs/method.md). Before the calibration proper, the inputs of the
// dense model's out_proj (features of an MLP, or outputs of an attention's heads) are summed over
// the tokens. One rank cuts each sublayer: the rank of its stage, or the ranks in turn if they
// share the tokens. The journal keeps the changed tensors under their names in the checkpoint. The
// rest of the calibration reads the model with these replacements.
//
// An allocation has two rounds. The first removes as much of each sublayer as it might, and keeps
// the predicted loss increase at each width and the order in which features go. All ranks read
// these curves from the journal and derive the same widths. The second round cuts. It takes the
// sums kept on the host, or sums again: it has to wait for the curves of all other sublayers, and
// the sums have d_ff² numbers for each MLP.

/// Predicted loss increase at each width, by layer: MLPs at possible_mlp_widths(), value heads at
/// possible_value_dims(). Empty if not measured.
struct CutCurves {
  std::vector<std::vector<double>> mlps;
  std::vector<std::vector<double>> values;
};

/// Runs the first round of an allocation. The result is the same on every rank. Entries of the
/// journal are not computed again; if nothing is missing, `together` (may be null) is not called.
/// `sums` receives the kept sums, if the plan keeps them. Ranks are stages of a pipeline.
/// Collective.
CutCurves measure_cuts(Communicator& comm, const CalibrationJob& dense, const ResolvedJob& job,
                       const CalibrationObserver& observer, PhaseClock& clock, AllocationSums& sums,
                       const DenseRound* together);

/// Cuts the MLPs and value heads of `dense` to the widths of `cut`, except those in the journal.
/// Ranks are pipeline stages or share the tokens, as in the job's schedule; value heads are cut
/// only in a pipeline. `sums`: state of an allocation, else null; its kept sums are not taken
/// again. The result does not depend, bit by bit, on the number of ranks or groups. Collective.
void cut_sublayers(Communicator& comm, const CalibrationJob& dense, const ResolvedJob& job,
                   const ModelConfig& cut, const CalibrationObserver& observer, PhaseClock& clock,
                   AllocationSums* sums = nullptr);

/// Returns this rank's sublayers that cut_sublayers still has to cut.
std::vector<int64_t> sublayers_to_cut(const Communicator& comm, const CalibrationJob& dense,
                                      const ModelConfig& cut);

/// Returns the files with the tensors that replace the dense model's; valid after cut_sublayers.
/// `for_trial`: as in CalibrationJob.
std::vector<std::filesystem::path> cut_files(const Journal& journal, const ModelConfig& dense,
                                             const ModelConfig& cut, bool for_trial = false);

/// Diagnostics of one cut sublayer, summed over its experts.
struct CutDiagnostics {
  /// Sum over the matrices of Removal::loss_increases.back() or CutValues::predicted_loss_increase.
  double predicted_loss_increase = 0.0;
  int64_t unseen_experts = 0;  ///< experts that no token has chosen; their H is the identity
};

/// Reads the diagnostics of the sublayer at its width in `cut`.
CutDiagnostics cut_diagnostics(const Journal& journal, const ModelConfig& cut, int64_t sublayer);

}  // namespace dotresize
