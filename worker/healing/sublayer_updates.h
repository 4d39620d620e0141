#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "job/model/model_config.h"
#include "job/model/tensor_table.h"
#include "worker/healing/adam.h"
#include "worker/transformer/weights.h"

namespace dotresize {

/// Updates B·A of the weights of a sublayer (Hu et al., 2022, "LoRA") that updated_tensors() names,
/// and their Adam. Objects are made outside of inference mode.
class SublayerUpdates {
 public:
  /// B is zero. A is random, of variance 1/in, and depends on the sublayer and the weight alone.
  SublayerUpdates(const ModelConfig& config, const SublayerWeights& weights);

  /// The weights get the updates, and keep them over the steps.
  void attach_to(SublayerWeights& weights) const;
  /// They get this share of the updates as they are now.
  void attach_share_to(SublayerWeights& weights, double share) const;
  /// Adds the gradients of a microbatch (SublayerGradients::updates) to those of the step.
  void add(const std::vector<at::Tensor>& gradients);
  /// `learning_rate`: of an entry of a weight while A is what it was; A learns at this rate, and B
  /// at sqrt(in/rank) times it. Throws std::runtime_error if a gradient is not finite.
  void step(double learning_rate);

  /// Values, moments and the number of steps, on the CPU.
  std::map<std::string, at::Tensor> state() const;
  void restore(const std::map<std::string, at::Tensor>& state);

 private:
  struct Parameter {
    AdamState adam;       ///< its value requires a gradient
    at::Tensor gradient;  ///< of the step so far
    double rate = 1.0;    ///< relative to A's
  };

  std::vector<StoredTensor> updated_;
  std::vector<Parameter> parameters_;  ///< A and B of each of these
  int64_t steps_ = 0;
};

/// W + share·B·A in float64 of each updated weight, by its name in the checkpoint, of what `state`
/// keeps. `stored`: the weights by these names.
std::map<std::string, at::Tensor> merged_weights(
    const ModelConfig& config, int64_t sublayer, const std::map<std::string, at::Tensor>& state,
    double share, const std::function<at::Tensor(const StoredTensor&)>& stored);

}  // namespace dotresize
