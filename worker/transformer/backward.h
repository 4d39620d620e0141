#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <vector>

#include "job/model/model_config.h"
#include "worker/transformer/mlp.h"
#include "worker/transformer/rotary.h"
#include "worker/transformer/weights.h"

namespace dotresize {

// The way back through one sublayer, by libtorch's autograd. Neither x nor the weights may be made
// in inference mode, and none may be on.

/// A sublayer under autograd: x [batch, tokens, d] and what the sublayer returns. Until it is gone
/// it holds what the operations between them keep.
struct SublayerGraph {
  at::Tensor input;
  at::Tensor output;
};

/// sublayer_forward (forward.h), bit for bit. `features` gets them without a graph.
SublayerGraph sublayer_graph(const ModelConfig& config, const SublayerWeights& weights,
                             const RotaryTable& rotary, const at::Tensor& x,
                             const FeatureVisitor& features = nullptr);

/// A and B of each linear layer that has an update, those of in_proj first.
std::vector<at::Tensor> updates_of(const SublayerWeights& weights);

/// Gradients of a loss.
struct SublayerGradients {
  at::Tensor input;
  /// With respect to updates_of(); undefined if it is zero. Empty if none of them requires it.
  std::vector<at::Tensor> updates;
};

/// The gradients of a sublayer; g: with respect to its output. In float16 the gradients within an
/// attention are scaled by a power of two: the largest one of g to about 1, and if that overflows
/// to less. The results are not scaled. If they are not finite, neither is x or g, or the attention
/// has no scale at which they are.
SublayerGradients gradients_through(const SublayerGraph& graph, const SublayerWeights& weights,
                                    const at::Tensor& g);

/// The same for f(x): f is computed again, and what it keeps is gone when this returns. Returns a
/// tensor of x's shape.
at::Tensor gradient_through(const std::function<at::Tensor(const at::Tensor&)>& f,
                            const at::Tensor& x, const at::Tensor& g);

}  // namespace dotresize
