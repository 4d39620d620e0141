#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "job/model/model_config.h"
#include "worker/transformer/weights.h"

namespace dotresize {

/// Updates B·A of the weights of a sublayer (Hu et al., 2022, "LoRA"), and the state of Adam
/// (Kingma and Ba, 2015; β 0.9 and 0.999, ε 1e-8, no weight decay), all float32. All weights of
/// in_proj and out_proj have one, but for the router of a mixture. Objects are made outside of
/// inference mode.
class SublayerUpdates {
 public:
  /// B is zero. A is random, of variance 1/in, and depends on the sublayer and the weight alone.
  SublayerUpdates(const ModelConfig& config, const SublayerWeights& weights);

  /// The weights get the updates, and keep them over the steps.
  void attach_to(SublayerWeights& weights) const;
  /// Adds the gradients of a microbatch (SublayerGradients::updates) to those of the step.
  void add(const std::vector<at::Tensor>& gradients);
  /// `learning_rate`: of an entry of a weight while A is what it was; A learns at this rate, and B
  /// at sqrt(in/rank) times it. Throws std::runtime_error if a gradient is not finite.
  void step(double learning_rate);

  /// What a job needs to go on, on the CPU.
  std::map<std::string, at::Tensor> state() const;
  void restore(const std::map<std::string, at::Tensor>& state);

 private:
  struct Parameter {
    at::Tensor value;     ///< requires its gradient
    at::Tensor gradient;  ///< of the step so far
    at::Tensor first;     ///< moments
    at::Tensor second;
    double rate = 1.0;  ///< relative to A's
  };

  std::vector<size_t> updated_in_proj_;
  std::vector<Parameter> parameters_;  ///< A and B of each weight, in_proj first
  int64_t steps_ = 0;
};

/// W + B·A in float64 of each updated weight, by its name in the checkpoint, of what `state` keeps.
/// `stored`: the weights by these names.
std::map<std::string, at::Tensor> merged_weights(
    const ModelConfig& config, int64_t sublayer, const std::map<std::string, at::Tensor>& state,
    const std::function<at::Tensor(const StoredTensor&)>& stored);

}  // namespace dotresize
