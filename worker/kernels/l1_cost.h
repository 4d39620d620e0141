#pragma once

#include <ATen/core/Tensor.h>

namespace dotresize {

/// Adds the l1 distances between all pairs of channels to the upper triangle of `cost`
/// (docs/method.md, "Moments"):
///   cost[i, j] += Σ_t |x[t, i] − x[t, j]|,  i < j.
/// What lies below keeps no promise until mirror_upper_triangle (kernels/upper_triangle.h).
///
/// x: [n, d] float32, contiguous, any n >= 0. cost: [d, d] float64, contiguous, same device.
/// float32 sums over blocks of tokens are added in float64: relative error <= 1e-6 of a float64
/// sum. The result depends neither on the number of threads nor on the instruction set, bit for
/// bit. No more than 2048 tokens are copied at a time. On a GPU the error is <= 1e-5, and the
/// result the same in every run.
///
/// `shift`: the sums of a block of tokens are rounded before they are added, to what is left of
/// them when this number has been added and subtracted. 0 rounds nothing.
void add_l1_cost(const at::Tensor& x, at::Tensor& cost, double shift = 0.0);

}  // namespace dotresize
