#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "job/model/model_config.h"
#include "job/plan/healing.h"
#include "worker/comm/communicator.h"
#include "worker/healing/layer.h"
#include "worker/transformer/microbatches.h"
#include "worker/transformer/rotary.h"

namespace dotresize {

/// This rank's microbatches of some windows at a layer.
struct LayerTokens {
  Microbatches x;        ///< that the layer reads: the compressed model's, so far
  Microbatches targets;  ///< the dense model's output in the coordinates of the layer's
  /// The experts that the dense model chooses, of a mixture; else undefined.
  std::vector<at::Tensor> experts;
  int64_t first = 0;  ///< number of the first one, of those of all ranks
  int64_t count = 0;  ///< of all ranks
};

/// ‖y − target‖² over ‖target‖² + d·eps of each token, [tokens] float32, d·eps being what the norm
/// behind adds to it. y, target: [batch, tokens, k] float32.
at::Tensor token_errors(const ModelConfig& config, const at::Tensor& y, const at::Tensor& target);

/// The gradient of `scale` times the sum of token_errors with respect to y.
at::Tensor error_gradient(const ModelConfig& config, const at::Tensor& y, const at::Tensor& target,
                          double scale);

/// A layer to distil (docs/method.md, "Healing"). References outlive it.
struct LayerProblem {
  const ModelConfig& config;  ///< of the output
  const RotaryTable& rotary;
  const LayerWeights& folded;  ///< in the output's dtype
  const LayerTokens& fitted;
  const LayerTokens& held_out;
  const Healing& options;
  at::Device device;
  at::ScalarType output_dtype;
  at::ScalarType compute_dtype;  ///< float32 or bfloat16
  /// Microbatches of all ranks whose gradients were taken.
  std::function<void(int64_t microbatches)> microbatches_seen;
};

struct DistilledLayer {
  LayerWeights weights;       ///< in the output's dtype: distilled, or the folded ones
  double folded_error = 0.0;  ///< mean of token_errors on the held-out windows
  double error = 0.0;         ///< likewise, of `weights`
  int64_t epochs = 0;         ///< after which `weights` were taken; 0: they are the folded ones
};

/// The same on every rank, whatever their number. Throws std::runtime_error if gradients are not
/// finite. Outside of inference mode. Collective.
DistilledLayer distill_layer(Communicator& comm, const LayerProblem& problem);

}  // namespace dotresize
