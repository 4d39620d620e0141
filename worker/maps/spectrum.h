#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <utility>
#include <vector>

namespace dotresize {

/// Eigen decomposition of a Gram matrix, leading eigenvalue first.
struct Eigenbasis {
  at::Tensor values;  ///< [d] float64, descending
  at::Tensor
      vectors;  ///< U [d, d] float64, columns; the entry of largest magnitude of each is positive
};

/// gram: [d, d] symmetric float64 (docs/method.md, "Maps", step 1); the result is on its device.
/// Throws std::runtime_error if it is not finite.
Eigenbasis eigenbasis(const at::Tensor& gram);

/// The eigenvalues alone, a tenth of the work: [d] float64, descending. Throws likewise.
at::Tensor spectrum(const at::Tensor& gram);

/// Smallest r whose leading eigenvalues hold at least `share` of the trace. values: [d] float64,
/// descending.
int64_t effective_rank(const at::Tensor& values, double share = 0.99);

/// (r, fraction of the trace that the r largest eigenvalues hold), r rising.
using EnergyOverRank = std::vector<std::pair<int64_t, double>>;

/// Of at most 32 ranks from 1 to d by about equal factors. values: [d] float64, descending.
EnergyOverRank energy_over_rank(const at::Tensor& values);

/// The 2-norm condition of an upper triangular matrix R [k, k] float64 without zeros on its
/// diagonal, to a relative error of 1e-6 (conditions up to 1e9). On any device; computed on the
/// host. A few dozen products with R and R⁻¹; singular values take O(k³).
double triangular_condition(const at::Tensor& R);

}  // namespace dotresize
