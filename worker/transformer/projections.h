#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "worker/transformer/weights.h"

namespace dotresize {

/// Returns x / sqrt(Σ x² / divisor + eps) · γ in float32. x: [..., k]; γ [k] or undefined; divisor:
/// the original width d.
at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& gamma, int64_t divisor, double eps);

/// Takes x [..., k_in] through in_proj. Returns one result per part, [..., widths[i]], from
/// separate matrices or a fused one. The results do not overlap.
std::vector<at::Tensor> apply_in_proj(const std::vector<Linear>& in_proj, const at::Tensor& x,
                                      at::IntArrayRef widths);

/// Returns x · projectionᵀ in float32, or x if the projection is undefined. x: [..., in] float32,
/// projection: [out, in].
at::Tensor project(const at::Tensor& x, const at::Tensor& projection);

}  // namespace dotresize
