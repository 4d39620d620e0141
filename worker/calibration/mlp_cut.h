#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "base/phase_clock.h"
#include "worker/calibration/calibration.h"
#include "worker/calibration/journal.h"
#include "worker/comm/communicator.h"

namespace dotresize {

// Narrower MLPs (docs/method.md, "Narrower MLPs"): the dense model's features are summed over the
// tokens before the calibration proper, and each MLP is cut by one rank: the one that has its
// sublayer, or if ranks share the tokens by one after the other. The journal keeps of each what has
// changed of its tensors, under their names in the checkpoint, and the rest of the calibration
// reads the model with these in place of the others.

/// How ranks meet the tokens.
enum class FeaturePasses {
  kStages,  ///< ranks are stages of a pipeline; in the metric of the loss with its way back
  kShares,  ///< ranks share the tokens, and take them through one sublayer after the other
};

/// Cuts every MLP of `dense` to the width that `cut` says, but for those in the journal. Neither
/// the number of ranks nor that of groups changes a bit of them. Collective.
void cut_mlps(Communicator& comm, const CalibrationJob& dense, const ModelConfig& cut,
              FeaturePasses passes, const CalibrationObserver& observer, PhaseClock& clock);

/// After cut_mlps: the files of the tensors that replace the checkpoint's.
std::vector<std::filesystem::path> cut_mlp_files(const Journal& journal, const ModelConfig& config);

/// What is known of one cut sublayer, all of its experts together.
struct MlpDiagnostics {
  double predicted_rise = 0.0;  ///< CutFeatures::predicted_rise
  int64_t unseen_experts = 0;   ///< that no token has chosen: their H is the identity
};

MlpDiagnostics mlp_diagnostics(const Journal& journal, int64_t sublayer);

}  // namespace dotresize
