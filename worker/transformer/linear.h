#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "worker/transformer/weights.h"

namespace dotresize {

/// Returns x / sqrt(Σ x² / divisor + eps) · γ in float32. x: [..., k]; γ [k] or undefined; divisor:
/// the original width d.
at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& gamma, int64_t divisor, double eps);

/// Overload for a norm of the model over x's whole width: `weight` as it is stored, or undefined.
at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& weight, const ModelConfig& config,
                    int64_t width);

/// Returns cap · tanh(x / cap), or x without a cap.
at::Tensor capped(const at::Tensor& x, const std::optional<double>& cap);

/// Returns the logits [..., rows] float32 of final states [..., width] for some rows [rows, width]
/// of the head. `cap`: ModelConfig::logit_cap.
at::Tensor logits_of(const at::Tensor& rows, const at::Tensor& states,
                     const std::optional<double>& cap);

// Products of float16 matrices that neither overflow nor underflow. Each row of x is scaled by a
// power of two so that its largest entry lies in [0.5, 1), and rounded to float16. The row of the
// product is scaled back. Only rounding is inexact, for tokens of any magnitude. Activations
// between products are float32.

/// Returns the dtype of activations between products with weights of this dtype: float32 for
/// float16, else the same.
at::ScalarType activation_dtype(at::ScalarType weights);

/// Returns x [..., n] float32 · matrix [n, m] float16: [..., m] float32. Differentiable in x; rows
/// of the gradient are scaled too.
at::Tensor half_product(const at::Tensor& x, const at::Tensor& matrix);

/// Takes x [..., in] through a linear layer and its update: [..., out], both of activation_dtype.
at::Tensor apply_linear(const Linear& linear, const at::Tensor& x);

/// Takes x [..., k_in] through in_proj. Returns one result per part, [..., widths[i]], from
/// separate matrices or a fused one. The results do not overlap.
std::vector<at::Tensor> apply_in_proj(const std::vector<Linear>& in_proj, const at::Tensor& x,
                                      at::IntArrayRef widths);

/// Returns x · projectionᵀ in float32, or x if the projection is undefined. x: [..., in] float32,
/// projection: [out, in].
at::Tensor project(const at::Tensor& x, const at::Tensor& projection);

/// Returns the residual stream of rows of the embedding [..., in] float32: projected, and scaled.
at::Tensor scaled_embedding(const at::Tensor& rows, const at::Tensor& projection, double scale);

}  // namespace dotresize
