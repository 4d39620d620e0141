#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "worker/transformer/weights.h"

namespace dotresize {

/// x [..., k_in] through a sublayer's in_proj: one result per part, [..., widths[i]], whether each
/// part has a matrix of its own or one holds them all. The results do not overlap.
std::vector<at::Tensor> read_parts(const std::vector<Linear>& in_proj, const at::Tensor& x,
                                   at::IntArrayRef widths);

}  // namespace dotresize
