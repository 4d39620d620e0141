#pragma once

#include <ATen/core/Tensor.h>

#include "job/model/layer_spec.h"
#include "worker/transformer/weights.h"

namespace dotresize {

/// What a DeltaNet keeps of the tokens that it has seen. Both are undefined before the first one.
struct DeltaNetState {
  at::Tensor inputs;  ///< last inputs of the convolution [batch, channels, taps - 1] float32
  at::Tensor memory;  ///< [batch, value heads, key_dim, value_dim] float32
};

/// Returns the input of out_proj, [batch, tokens, values], of normalised x [batch, tokens, k_in] in
/// the weights' activation_dtype (linear.h). Causal. Everything between the projections is float32.
/// `eps`: of the norm before the gate. `state`: x follows its tokens, and is added to it; may be
/// null.
at::Tensor delta_net_forward(const DeltaNetSpec& net, const SublayerWeights& weights, double eps,
                             const at::Tensor& x, DeltaNetState* state);

}  // namespace dotresize
