#pragma once

#include <ATen/core/Tensor.h>

namespace dotresize {

/// Adds the l1 distances between all pairs of channels to the upper triangle of `cost`
/// (docs/method.md, "Moments"):
///   cost[i, j] += Σ_t |x[t, i] − x[t, j]|,  i < j.
/// What lies below keeps no promise until mirror_upper_triangle.
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

/// add_l1_cost by the GPU's float16 kernel, which does two pairs while the float32
/// one does one:
///   cost[i, j] += 2^-s Σ_t |half(2^s x[t, i]) − half(2^s x[t, j])|,
/// and 2^s brings the largest magnitude of x just under 4094, the kernel's limit. Scaling up and
/// down is exact. Values keep all digits of float16 down to 2^-26 of the largest one, which no
/// outlier of a residual stream comes near; half_l1_cost_error tells.
///
/// x: [n, d] float32, contiguous, finite. cost: [d, d] float64, contiguous, of which the upper
/// triangle counts. Both on the GPU. shift: as in add_l1_cost; the sums of all of x are rounded.
void add_half_l1_cost(const at::Tensor& x, at::Tensor& cost, double shift = 0.0);

/// The largest relative difference between add_half_l1_cost and add_l1_cost of the first 512 tokens
/// of x, over all pairs of channels. Needs two matrices [d, d] float64 beside its arguments. Not
/// finite if x is not.
double half_l1_cost_error(const at::Tensor& x);

/// Errors up to this one are accepted: what rounding an activation to bfloat16 costs. Each value is
/// off by at most 2^-12 of itself, and so is each of nine sums, independently of other tokens. Over
/// 512 tokens that comes to 1e-5, for the worst of many million pairs to 1e-4; if one token
/// outweighs all others in a few channels, as the first of a window may, to 1e-3. These errors go
/// on to fall with the root of the number of tokens, as the sampling error of the sum itself does,
/// which is larger (0.15 % after 128 x 2048 alike tokens, more if few of them count). What does
/// not fall, channels that differ by less than float16 can tell, is larger at once and refused.
/// With costs scaled to at most 1 and λ = 0.1, an entry of exp(−C/λ) changes by 2 % of itself at
/// most.
inline constexpr double kMaxHalfL1CostError = 0x1p-9;

/// matrix[j, i] = matrix[i, j] for i < j. matrix: [d, d] float64, contiguous, on any device.
void mirror_upper_triangle(at::Tensor& matrix);

}  // namespace dotresize
