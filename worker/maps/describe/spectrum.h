#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <utility>
#include <vector>

namespace dotresize {

/// Eigen decomposition of a Gram matrix, leading eigenvalue first.
struct Eigenbasis {
  at::Tensor values;  ///< [d] float64, descending
  /// U [d, d] float64, in columns. The largest entry of each by magnitude is positive.
  at::Tensor vectors;
};

/// Decomposes gram [d, d], symmetric float64 (docs/method.md, "Maps", step 1), on its device.
/// Throws std::runtime_error if it is not finite.
Eigenbasis eigenbasis(const at::Tensor& gram);

/// Returns only the eigenvalues, [d] float64, descending: a tenth of the work. Same errors.
at::Tensor spectrum(const at::Tensor& gram);

/// Returns the smallest r such that the r largest eigenvalues hold at least `share` of the trace.
/// values: [d] float64, descending.
int64_t effective_rank(const at::Tensor& values, double share = 0.99);

/// Pairs (r, fraction of the trace in the r largest eigenvalues), r ascending.
using EnergyOverRank = std::vector<std::pair<int64_t, double>>;

/// Returns at most 32 ranks from 1 to d, about equally spaced on a log scale. values: [d] float64,
/// descending.
EnergyOverRank energy_over_rank(const at::Tensor& values);

/// Returns the 2-norm condition number of an upper triangular matrix R [k, k] float64 without zeros
/// on its diagonal, to a relative error of 1e-6 (for conditions up to 1e9). R may be on any device;
/// the computation runs on the host. It takes a few dozen products with R and R⁻¹, while singular
/// values would take O(k³).
double triangular_condition(const at::Tensor& R);

}  // namespace dotresize
