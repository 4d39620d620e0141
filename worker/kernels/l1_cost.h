#pragma once

#include <ATen/core/Tensor.h>

namespace dotresize {

/// Adds the l1 distances between all pairs of channels to the upper triangle of `cost`
/// (docs/method.md, "Moments"):
///   cost[i, j] += Σ_t |x[t, i] − x[t, j]|,  i < j.
/// The lower triangle is undefined until mirror_upper_triangle.
///
/// x: [n, d] float32, contiguous, any n >= 0. cost: [d, d] float64, contiguous, same device.
/// float32 sums over blocks of tokens are added in float64. Relative error to a float64 sum: <=
/// 1e-6, on a GPU <= 1e-5. On the CPU the result is bitwise independent of the number of threads
/// and the instruction set; on a GPU it is the same in every run. At most 2048 tokens are copied at
/// a time.
///
/// `shift`: rounds the sums of a block of tokens (on a GPU, of all tokens) before adding them to
/// `cost`, by adding and subtracting this number. 0: no rounding.
void add_l1_cost(const at::Tensor& x, at::Tensor& cost, double shift = 0.0);

/// Version of add_l1_cost by the GPU's float16 kernel, twice as fast as the float32 one:
///   cost[i, j] += 2^-s Σ_t |half(2^s x[t, i]) − half(2^s x[t, j])|,
/// where 2^s brings the largest magnitude of x just under 4094, the kernel's limit. The scaling is
/// exact. Values keep all digits of float16 down to 2^-26 of the largest one, which no outlier of a
/// residual stream comes near. half_l1_cost_error measures the error.
///
/// x: [n, d] float32, contiguous, finite. cost: [d, d] float64, contiguous; only the upper triangle
/// counts. Both on the GPU. shift: as in add_l1_cost, applied to the sums over all of x.
void add_half_l1_cost(const at::Tensor& x, at::Tensor& cost, double shift = 0.0);

/// Returns the largest relative difference between add_half_l1_cost and add_l1_cost for the first
/// 512 tokens of x, over all pairs of channels. Needs two more matrices [d, d] float64. Not finite
/// if x is not.
double half_l1_cost_error(const at::Tensor& x);

/// Largest accepted error: the cost of rounding an activation to bfloat16. Each value is off by at
/// most 2^-12 of itself, and so is each of nine sums, independently of other tokens. Over 512
/// tokens that comes to 1e-5, and for the worst of many million pairs to 1e-4. If one token
/// outweighs all others in a few channels, as the first of a window may, it comes to 1e-3. These
/// errors fall further with the root of the number of tokens, as does the sampling error of the sum
/// itself, which is larger (0.15 % after 128 x 2048 tokens of equal weight, more if few tokens
/// dominate). One error does not fall: that of channels that differ by less than float16 resolves.
/// It is larger at once, and refused. With costs scaled to at most 1 and λ = 0.1, an entry of
/// exp(−C/λ) changes by at most 2 % of itself.
inline constexpr double kMaxHalfL1CostError = 0x1p-9;

/// Sets matrix[j, i] = matrix[i, j] for i < j. matrix: [d, d] float64, contiguous, any device.
void mirror_upper_triangle(at::Tensor& matrix);

}  // namespace dotresize
