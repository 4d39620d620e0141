#pragma once

#include <ATen/core/Tensor.h>

#include "job/model/model_config.h"
#include "worker/transformer/mlp.h"
#include "worker/transformer/weights.h"

namespace dotresize {

/// State of a DeltaNet behind the tokens that it has seen. Both are undefined before the first one.
struct DeltaNetState {
  at::Tensor inputs;  ///< last inputs of the convolution [batch, channels, taps - 1] float32
  at::Tensor memory;  ///< [batch, value heads, key_dim, value_dim] float32
};

/// DeltaNet of normalised x [batch, tokens, k_in], in the weights' activation_dtype (linear.h).
/// Causal. Everything between the projections is float32. Returns [batch, tokens, k_out], skip not
/// added. `state`: x follows its tokens, and is added to it; may be null. `visit`: receives the
/// input of out_proj, [batch, tokens, value heads · value_dim].
at::Tensor delta_net_forward(const ModelConfig& config, const SublayerWeights& weights,
                             const at::Tensor& x, DeltaNetState* state,
                             const FeatureVisitor& visit);

}  // namespace dotresize
