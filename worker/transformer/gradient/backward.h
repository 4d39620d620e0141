#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <vector>

#include "job/model/model_config.h"
#include "worker/transformer/mlp.h"
#include "worker/transformer/rotary.h"
#include "worker/transformer/weights.h"

namespace dotresize {

// Backward pass through one sublayer, with libtorch's autograd. x and the weights must not be made
// in inference mode, and inference mode must be off.

/// A sublayer under autograd: x [batch, tokens, d] and the sublayer's result. It holds the tensors
/// that autograd saves.
struct SublayerGraph {
  at::Tensor input;
  at::Tensor update = {};  ///< what out_proj writes, if a norm is behind it; else undefined
  at::Tensor factor = {};  ///< post_norm_factor of the update
  at::Tensor output;
};

/// Runs sublayer_forward (forward.h) with a graph; same bits. `features` receives tensors without a
/// graph.
SublayerGraph sublayer_graph(const ModelConfig& config, const SublayerWeights& weights,
                             const LayerContext& context, const at::Tensor& x,
                             const FeatureVisitor& features = nullptr);

/// Returns A and B of each linear layer that has an update, in_proj first.
std::vector<at::Tensor> updates_of(const SublayerWeights& weights);

/// Gradients of a loss.
struct SublayerGradients {
  at::Tensor input;
  at::Tensor update = {};  ///< that of the graph's update over its factor; undefined if that is
  /// Gradients of updates_of(); a tensor is undefined if its gradient is zero. Empty unless all
  /// updates require gradients.
  std::vector<at::Tensor> updates;
};

/// Returns the gradients of a sublayer; g: gradient of its output. In float16, gradients within an
/// attention are scaled by a power of two: the largest entry of g becomes about 1, or less if that
/// overflows. Results are unscaled. If they are not finite, x or g is not finite, or no scale of
/// the attention makes them finite.
SublayerGradients gradients_through(const SublayerGraph& graph, const SublayerWeights& weights,
                                    const at::Tensor& g);

/// Returns the gradient of f(x), of x's shape. f is computed again; its saved tensors are freed on
/// return.
at::Tensor gradient_through(const std::function<at::Tensor(const at::Tensor&)>& f,
                            const at::Tensor& x, const at::Tensor& g);

}  // namespace dotresize
