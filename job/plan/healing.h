#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "job/model/model_config.h"
#include "job/model/tensor_table.h"
#include "job/plan/token_windows.h"

namespace dotresize {

/// `heal`: each decoder layer of the output is distilled on its own, and then the output as a
/// whole, by low-rank updates of its weights (docs/method.md, "Healing").
struct Healing {
  std::optional<int64_t> samples;  ///< windows; absent: those of the calibration
  int64_t epochs = 3;              ///< of each
  double learning_rate = 3e-4;     ///< of the first step of a layer

  /// Rate of the updates in their first step, for an entry of a weight.
  double update_learning_rate() const { return learning_rate * 2.0 / 3.0; }
};

/// Rank of an update, unless its matrix is smaller.
inline constexpr int64_t kUpdateRank = 64;

/// Share of the text's own tokens in what the updated output learns to predict; the rest is what
/// the dense model predicts.
inline constexpr double kLabelShare = 0.1;

/// Shares of the updates that are tried after all of them, one after the other while less is
/// better.
inline constexpr std::array<double, 3> kLessUpdates = {0.75, 0.5, 0.25};

/// The number of windows that are fitted to; the others are held out (an eighth, at least one).
inline int64_t fitted_windows(int64_t windows) {
  return windows == 1 ? 1 : windows - std::max<int64_t>(1, windows / 8);
}

/// Windows whose gradients make one step, of `fitted` in an epoch: a thousand tokens at least. More
/// keep more ranks busy and leave fewer steps; an epoch has about 28, if there are so many windows.
/// It does not depend on the ranks, since the result must not.
inline int64_t windows_per_step(int64_t fitted, int64_t seqlen) {
  constexpr int64_t kStepsPerEpoch = 28;
  constexpr int64_t kMost = 16;
  constexpr int64_t kLeastTokens = 1024;
  const int64_t least = (kLeastTokens + seqlen - 1) / seqlen;
  return std::clamp<int64_t>(std::max(least, std::min(kMost, fitted / kStepsPerEpoch)), 1, fitted);
}

/// Weights of a sublayer that have updates, in_proj first: all but the router of a mixture.
std::vector<StoredTensor> updated_tensors(const ModelConfig& config, int64_t sublayer);
/// Numbers of these updates.
int64_t update_parameters(const ModelConfig& config, int64_t sublayer);

/// Steps of an epoch.
inline int64_t steps_per_epoch(int64_t fitted, int64_t seqlen) {
  const int64_t at_once = windows_per_step(fitted, seqlen);
  return (fitted + at_once - 1) / at_once;
}

/// Microbatches of these.
inline int64_t fitted_microbatches(int64_t windows, int64_t seqlen) {
  const int64_t samples = microbatch_samples(seqlen);
  return (fitted_windows(windows) + samples - 1) / samples;
}

/// Tokens that a job counts while it heals one layer, whether or not it stops early; the last
/// microbatch counts as a whole one.
inline int64_t counted_healing_tokens(const Healing& healing, int64_t windows, int64_t seqlen) {
  return healing.epochs * fitted_microbatches(windows, seqlen) * microbatch_samples(seqlen) *
         seqlen;
}

/// Microbatches whose gradients make one step, of `microbatches` in an epoch. More keep more ranks
/// busy and leave fewer steps; an epoch has about fourteen. It does not depend on the ranks, since
/// the result must not.
inline int64_t microbatches_per_step(int64_t microbatches) {
  constexpr int64_t kStepsPerEpoch = 14;
  constexpr int64_t kMost = 8;
  return std::clamp<int64_t>(microbatches / kStepsPerEpoch, 1, kMost);
}

/// Steps of an epoch.
inline int64_t layer_steps_per_epoch(int64_t microbatches) {
  const int64_t batch = microbatches_per_step(microbatches);
  return (microbatches + batch - 1) / batch;
}

}  // namespace dotresize
