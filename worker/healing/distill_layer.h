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
  /// Of a mixture: those that the dense model chooses; else undefined.
  std::vector<at::Tensor> experts;
  int64_t first = 0;  ///< number of the first one, of those of all ranks
  int64_t count = 0;  ///< of all ranks
};

/// A layer to distil (docs/method.md, "Healing"). References outlive it.
struct LayerProblem {
  const ModelConfig& config;  ///< of the output
  const RotaryTable& rotary;
  const LayerWeights& folded;  ///< in the output's dtype
  const LayerTokens& fitted;
  const LayerTokens& held_out;
  StreamError error;
  const Healing& options;
  at::Device device;
  at::ScalarType output_dtype;
  at::ScalarType compute_dtype;  ///< float32 or bfloat16
  /// Of all ranks, whose gradients were taken.
  std::function<void(int64_t microbatches)> microbatches_seen;
};

/// The error of the stream behind a layer.
struct StreamError {
  /// [k, k] float32, symmetric, of mean diagonal 1: in which errors are measured; undefined: the
  /// identity.
  at::Tensor metric;
  double energy = 0.0;  ///< that the norm behind adds to a token's: d·eps

  /// e·metric·eᵀ over ‖target‖² + energy of each token, e = y − target: [tokens] float32. y, target:
  /// [batch, tokens, k] float32.
  at::Tensor of_tokens(const at::Tensor& y, const at::Tensor& target) const;
  /// The gradient of `scale` times the sum of of_tokens() with respect to y.
  at::Tensor gradient(const at::Tensor& y, const at::Tensor& target, double scale) const;
};

struct DistilledLayer {
  LayerWeights weights;       ///< in the output's dtype: distilled, or the folded ones
  double folded_error = 0.0;  ///< mean of StreamError::of_tokens on the held-out windows
  double error = 0.0;         ///< likewise, of `weights`
  int64_t epochs = 0;         ///< after which `weights` were taken; 0: they are the folded ones
};

/// The same on every rank, whatever their number. Throws std::runtime_error if gradients are not
/// finite. Outside of inference mode. Collective.
DistilledLayer distill_layer(Communicator& comm, const LayerProblem& problem);

}  // namespace dotresize
