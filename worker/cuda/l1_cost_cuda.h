#pragma once

#include <ATen/core/Tensor.h>

namespace dotresize {

/// add_l1_cost (worker/kernels/l1_cost.h) on the GPU of x, on PyTorch's current stream. x: [n, d]
/// float32, relative error <= 1e-5 of a float64 sum. cost: [d, d] float64. Both contiguous. The
/// same result in every run.
void add_l1_cost_cuda(const at::Tensor& x, at::Tensor& cost);

/// cost[i, j] += unit · Σ_t |x[t, i] − x[t, j]|. x: [n, d] float16 with entries of at most 4094 in
/// magnitude: relative error <= 9/2048, and far less if the rounding errors of many tokens
/// cancel. `unit`: a power of two. All else as above.
void add_half_l1_cost_cuda(const at::Tensor& x, double unit, at::Tensor& cost);

/// mirror_upper_triangle (likewise) on the GPU of the matrix.
void mirror_upper_triangle_cuda(at::Tensor& matrix);

}  // namespace dotresize
