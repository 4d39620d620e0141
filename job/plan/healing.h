#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "job/model/model_config.h"
#include "job/model/tensor_table.h"

namespace dotresize {

/// Settings of `heal`: each decoder layer of the output is distilled by itself. Then the output as
/// a whole is distilled by low-rank updates of its weights (docs/method.md, "Healing").
struct Healing {
  std::optional<int64_t> samples;  ///< number of windows; absent: as many as in the calibration
  int64_t epochs = 3;              ///< epochs per layer, and epochs of the updates
  double learning_rate = 3e-4;     ///< learning rate in the first step of a layer

  /// Learning rate in the first step of the updates, per entry of a weight.
  double update_learning_rate() const { return learning_rate * 2.0 / 3.0; }
};

/// Rank of an update, unless its matrix is smaller.
inline constexpr int64_t kUpdateRank = 64;

/// Weight of the text's own tokens in the training target of the updates. The rest is the dense
/// model's prediction.
inline constexpr double kLabelShare = 0.1;

/// Factors of the trained updates that are tried in this order after factor 1, as long as the
/// held-out loss falls.
inline constexpr std::array<double, 3> kLessUpdates = {0.75, 0.5, 0.25};

/// Number of windows that are fitted to. The others are held out: an eighth, at least one. A single
/// window is fitted to as well.
int64_t fitted_windows(int64_t windows);

/// Windows per step, with `fitted` windows per epoch: at least 1024 tokens. Larger steps keep more
/// ranks busy and leave fewer steps. An epoch has about 28 steps if there are enough windows. The
/// number does not depend on the ranks, because the result must not.
int64_t windows_per_step(int64_t fitted, int64_t seqlen);

/// Weights of a sublayer that have updates, in_proj first: all except the router of a mixture.
std::vector<StoredTensor> updated_tensors(const ModelConfig& config, int64_t sublayer);
/// Number of parameters of these updates.
int64_t update_parameters(const ModelConfig& config, int64_t sublayer);

/// Steps per epoch of the updates.
int64_t steps_per_epoch(int64_t fitted, int64_t seqlen);

/// Number of microbatches in the windows that are fitted to.
int64_t fitted_microbatches(int64_t windows, int64_t seqlen);

/// Tokens that a job counts while it heals one layer, even if it stops early. The last microbatch
/// counts as a whole one.
int64_t counted_healing_tokens(const Healing& healing, int64_t windows, int64_t seqlen);

/// Microbatches per step, with `microbatches` per epoch. Larger steps keep more ranks busy and
/// leave fewer steps. An epoch has about fourteen steps. The number does not depend on the ranks,
/// because the result must not.
int64_t microbatches_per_step(int64_t microbatches);

/// Steps per epoch of a layer.
int64_t layer_steps_per_epoch(int64_t microbatches);

}  // namespace dotresize
