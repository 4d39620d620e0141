#pragma once

#include <ATen/core/Tensor.h>

#include "worker/transformer/weights.h"

namespace dotresize {

// Products of float16 matrices that neither overflow nor underflow. Each row of x is scaled by a
// power of two of its own, so that its largest entry lies in [0.5, 1), is rounded to float16, and
// the row of the product is scaled back: exact but for the rounding, however large or small a token
// is. What lies between two products is float32.

/// What flows between products with weights of this dtype: float32 for float16, else the same.
at::ScalarType activation_dtype(at::ScalarType weights);

/// x [..., n] float32 · matrix [n, m] float16: [..., m] float32. Differentiable with respect to x;
/// rows of the gradient are scaled likewise.
at::Tensor half_product(const at::Tensor& x, const at::Tensor& matrix);

/// x [..., in] through a linear layer with its update: [..., out], both of activation_dtype.
at::Tensor apply_linear(const Linear& linear, const at::Tensor& x);

}  // namespace dotresize
