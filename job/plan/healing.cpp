#include "job/plan/healing.h"

#include <algorithm>

#include "job/plan/block_sizes.h"

namespace dotresize {

int64_t fitted_windows(int64_t windows) {
  return windows == 1 ? 1 : windows - std::max<int64_t>(1, windows / 8);
}

int64_t windows_per_step(int64_t fitted, int64_t seqlen) {
  constexpr int64_t kStepsPerEpoch = 28;
  constexpr int64_t kMost = 16;
  constexpr int64_t kLeastTokens = 1024;
  const int64_t least = (kLeastTokens + seqlen - 1) / seqlen;
  return std::clamp<int64_t>(std::max(least, std::min(kMost, fitted / kStepsPerEpoch)), 1, fitted);
}

int64_t steps_per_epoch(int64_t fitted, int64_t seqlen) {
  const int64_t at_once = windows_per_step(fitted, seqlen);
  return (fitted + at_once - 1) / at_once;
}

int64_t fitted_microbatches(int64_t windows, int64_t seqlen) {
  const int64_t samples = microbatch_samples(seqlen);
  return (fitted_windows(windows) + samples - 1) / samples;
}

int64_t counted_healing_tokens(const Healing& healing, int64_t windows, int64_t seqlen) {
  return healing.epochs * fitted_microbatches(windows, seqlen) * microbatch_samples(seqlen) *
         seqlen;
}

int64_t microbatches_per_step(int64_t microbatches) {
  constexpr int64_t kStepsPerEpoch = 14;
  constexpr int64_t kMost = 8;
  return std::clamp<int64_t>(microbatches / kStepsPerEpoch, 1, kMost);
}

int64_t layer_steps_per_epoch(int64_t microbatches) {
  const int64_t batch = microbatches_per_step(microbatches);
  return (microbatches + batch - 1) / batch;
}

std::vector<StoredTensor> updated_tensors(const ModelConfig& config, int64_t sublayer) {
  std::vector<StoredTensor> updated;
  const bool mixture = config.is_mixture(sublayer);
  for (const TensorRole role : {TensorRole::kInProjWeight, TensorRole::kOutProjWeight}) {
    for (const StoredTensor& stored : sublayer_tensors(config, sublayer)) {
      const bool router = mixture && role == TensorRole::kInProjWeight && stored.index == 0;
      if (stored.role == role && !router) updated.push_back(stored);
    }
  }
  return updated;
}

int64_t update_parameters(const ModelConfig& config, int64_t sublayer) {
  int64_t parameters = 0;
  for (const StoredTensor& weight : updated_tensors(config, sublayer)) {
    const int64_t out = weight.shape.at(0);
    const int64_t in = weight.shape.at(1);
    parameters += std::min({kUpdateRank, out, in}) * (out + in);
  }
  return parameters;
}

}  // namespace dotresize
