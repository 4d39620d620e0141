#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <vector>

#include "base/phase_clock.h"
#include "job/plan/resolved_job.h"
#include "worker/calibration/calibration.h"
#include "worker/calibration/journal.h"
#include "worker/comm/communicator.h"
#include "worker/maps/moments.h"
#include "worker/transformer/stage.h"

namespace dotresize {

// Narrower MLPs and value heads (docs/method.md): what out_proj of the dense model reads, the
// features of an MLP or what the heads of an attention make of their values, is summed over the
// tokens before the calibration proper, and each sublayer is cut by one rank: the one that has it,
// or if ranks share the tokens by one after the other. The journal keeps of each what has changed
// of its tensors, under their names in the checkpoint, and the rest of the calibration reads the
// model with these in place of the others.
//
// An allocation has two rounds. The first one removes as much of each sublayer as it might, and
// keeps what that costs at every width, and in which order features go; all ranks read these curves
// of the journal and come to the same widths. The second one cuts, from sums that were kept on the
// host, or taken again: they wait for the curves of all other MLPs, d_ff² numbers of each.

/// Over all tokens, of one sublayer.
struct SublayerSums {
  int64_t sublayer = 0;
  std::vector<Moments> features;  ///< that the MLP, each expert or the attention's o reads
  std::vector<int64_t> tokens;    ///< that each has met
  /// Behind the sublayer, in the metric of the loss, if that is needed and nothing else has it.
  std::optional<Moments> gradients;
};

/// A first round that serves others (ShardPlan::dense_round).
struct DenseRound {
  JunctionVisitor see_state;         ///< is called with each microbatch at a junction of this rank
  JunctionVisitor see_gradient;      ///< and with the loss's gradient there
  std::function<void()> after_pass;  ///< before anything is made of the sums
};

/// What an allocation knows when it cuts.
struct AllocationSums {
  /// Whether the metric of a junction of this rank is known, or will be after a DenseRound.
  std::function<bool(int64_t junction)> has_metric;
  std::function<at::Tensor(int64_t junction)> metric;  ///< L [d, d], on the device
  std::vector<SublayerSums> kept;  ///< of this rank's sublayers, on the host; or nothing
};

/// By layer, the predicted rise at each width: of MLPs at possible_mlp_widths(), of value heads at
/// possible_value_dims(), or nothing.
struct CutCurves {
  std::vector<std::vector<double>> mlps;
  std::vector<std::vector<double>> values;
};

/// The first round of an allocation, the same on every rank. What is in the journal is not computed
/// again: if that is everything, `together`, which may be null, gets nothing. `sums` gets what is
/// kept, if the plan says so. Ranks are stages of a pipeline. Collective.
CutCurves measure_cuts(Communicator& comm, const CalibrationJob& dense, const ResolvedJob& job,
                       const CalibrationObserver& observer, PhaseClock& clock, AllocationSums& sums,
                       const DenseRound* together);

/// Cuts the MLPs and value heads of `dense` to the widths of `cut`, but for those in the journal.
/// Ranks are stages of a pipeline, or share the tokens, as in the job's schedule; value heads are
/// cut in a pipeline alone. `sums`: of an allocation, else null; what was kept is not summed again.
/// Neither the number of ranks nor that of groups changes a bit of it. Collective.
void cut_sublayers(Communicator& comm, const CalibrationJob& dense, const ResolvedJob& job,
                   const ModelConfig& cut, const CalibrationObserver& observer, PhaseClock& clock,
                   AllocationSums* sums = nullptr);

/// This rank's sublayers that cut_sublayers has still to cut.
std::vector<int64_t> sublayers_to_cut(const Communicator& comm, const CalibrationJob& dense,
                                      const ModelConfig& cut);

/// After cut_sublayers: the files of the tensors that replace the dense model's. `for_trial`: as
/// CalibrationJob has it.
std::vector<std::filesystem::path> cut_files(const Journal& journal, const ModelConfig& dense,
                                             const ModelConfig& cut, bool for_trial = false);

/// What is known of one sublayer that was cut, all of its experts together.
struct CutDiagnostics {
  double predicted_rise = 0.0;  ///< CutFeatures::predicted_rise, CutValues::predicted_rise
  int64_t unseen_experts = 0;   ///< that no token has chosen: their H is the identity
};

/// As narrow as in `cut`.
CutDiagnostics cut_diagnostics(const Journal& journal, const ModelConfig& cut, int64_t sublayer);

}  // namespace dotresize
