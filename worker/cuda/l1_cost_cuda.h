#pragma once

#include <ATen/core/Tensor.h>

namespace dotresize {

/// GPU version of add_l1_cost (worker/kernels/l1_cost.h), on the GPU of x and PyTorch's current
/// stream. x: [n, d] float32; cost: [d, d] float64; both contiguous. Relative error <= 1e-5 of a
/// float64 sum. The result is the same in every run.
void add_l1_cost_cuda(const at::Tensor& x, at::Tensor& cost);

/// Adds cost[i, j] += unit · Σ_t |x[t, i] − x[t, j]|. x: [n, d] float16 with magnitudes of at most
/// 4094. Relative error <= 9/2048, and far less if the rounding errors of many tokens cancel.
/// `unit`: a power of two. Otherwise as add_l1_cost_cuda.
void add_half_l1_cost_cuda(const at::Tensor& x, double unit, at::Tensor& cost);

/// GPU version of mirror_upper_triangle, on the GPU of the matrix.
void mirror_upper_triangle_cuda(at::Tensor& matrix);

}  // namespace dotresize
