#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "worker/transformer/weights.h"

namespace dotresize {

/// down(silu(gate(x)) · up(x)) of normalised x [..., k_in], in the weights' dtype. in_proj: gate
/// and up, or one that holds both; out_proj: down. Returns [..., k_out], skip not added.
at::Tensor mlp_forward(const std::vector<Linear>& in_proj, const Linear& out_proj,
                       const at::Tensor& x);

}  // namespace dotresize
