#pragma once

#include <ATen/core/Tensor.h>

#include "worker/transformer/weights.h"

namespace dotresize {

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

}  // namespace dotresize
