#pragma once

#include <ATen/core/Tensor.h>

#include "worker/model/weights.h"

namespace dotresize {

/// down(silu(gate(x)) · up(x)) of normalised x [batch, tokens, k_in], in the weights' dtype.
/// Returns [batch, tokens, k_out], skip not added.
at::Tensor mlp_forward(const SublayerWeights& weights, const at::Tensor& x);

}  // namespace dotresize
