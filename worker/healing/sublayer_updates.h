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
/// and their Adam state. Construct outside of inference mode.
class SublayerUpdates {
 public:
  /// Sets B to zero and A to random values of variance 1/in, which depend only on the sublayer and
  /// the weight.
  SublayerUpdates(const ModelConfig& config, const SublayerWeights& weights);

  /// Attaches the updates to the weights, multiplied by `share`. The whole updates (1.0) share
  /// memory with the weights', so later steps change these; else B is a copy.
  void attach_to(SublayerWeights& weights, double share = 1.0) const;
  /// Adds a microbatch's gradients (SublayerGradients::updates) to those of the step.
  void add(const std::vector<at::Tensor>& gradients);
  /// Takes one step of Adam. `learning_rate` is the rate of A; B learns at sqrt(in/rank) times it,
  /// which gives an entry of the weight the rate `learning_rate` while A is unchanged. Throws
  /// std::runtime_error if a gradient is not finite.
  void step(double learning_rate);

  /// Values, moments and the number of steps, on the CPU.
  std::map<std::string, at::Tensor> state() const;
  void restore(const std::map<std::string, at::Tensor>& state);

 private:
  struct Parameter {
    AdamState adam;       ///< its value requires a gradient
    at::Tensor gradient;  ///< sum over the microbatches of the step
    double rate = 1.0;    ///< learning rate relative to that of A
  };

  std::vector<StoredTensor> updated_;
  std::vector<Parameter> parameters_;  ///< A and B of each of `updated_`
  int64_t steps_ = 0;
};

/// Returns W + share·B·A in float64 for each updated weight, by its name in the checkpoint.
/// `state`: result of SublayerUpdates::state(). `stored`: returns W.
std::map<std::string, at::Tensor> merged_weights(
    const ModelConfig& config, int64_t sublayer, const std::map<std::string, at::Tensor>& state,
    double share, const std::function<at::Tensor(const StoredTensor&)>& stored);

}  // namespace dotresize
