#pragma once

#include <ATen/core/Tensor.h>

namespace dotresize {

/// Adds the l1 distances between all pairs of channels to `cost` (method.md, "Maps", step 3):
///   cost[i, j] += Σ_t |x[t, i] − x[t, j]|.
///
/// x: [n, d] float32, contiguous, any n >= 0. cost: [d, d] float64, contiguous, symmetric, same
/// device. float32 sums over blocks of tokens are flushed to float64: relative error <= 1e-6 of a
/// float64 sum. The result depends neither on the number of threads nor on the instruction set, bit
/// for bit. Nothing of size n·d is allocated. On a GPU the error is <= 1e-5, and the result the
/// same in every run.
void add_l1_cost(const at::Tensor& x, at::Tensor& cost);

}  // namespace dotresize
