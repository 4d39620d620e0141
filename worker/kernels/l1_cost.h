#pragma once

#include <ATen/core/Tensor.h>

namespace dotresize {

/// Adds the l1 distances between all pairs of channels to the upper triangle of `cost`
/// (docs/method.md, "Moments"):
///   cost[i, j] += Σ_t |x[t, i] − x[t, j]|,  i < j.
/// The lower triangle is undefined until mirror_upper_triangle.
///
/// x: [n, d] float32, contiguous, any n >= 0. cost: [d, d] float64, contiguous, same device.
/// On the CPU float32 sums over blocks of tokens are added in float64, with a relative error of at
/// most 1e-6, and the result is bitwise independent of the number of threads and the instruction
/// set; at most 2048 tokens are copied at a time. On a GPU x is rounded to fixed point: error and
/// the handling of numbers that are not finite are those of add_l1_cost_cuda
/// (worker/cuda/gpu_program.h).
///
/// `shift`: rounds the sums of a block of tokens (on a GPU, of all tokens) before adding them to
/// `cost`, by adding and subtracting this number. 0: no rounding.
void add_l1_cost(const at::Tensor& x, at::Tensor& cost, double shift = 0.0);

/// Sets matrix[j, i] = matrix[i, j] for i < j. matrix: [d, d] float64, contiguous, any device.
void mirror_upper_triangle(at::Tensor& matrix);

}  // namespace dotresize
