#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace dotresize {

struct SinkhornOptions {
  double lambda = 0.1;  ///< weight of the entropy, in units of the cost
  /// Largest l1 violation of a marginal that counts as converged: far below the effect of rounding
  /// a plan to the output's dtype, and far above the limit of float64.
  double tolerance = 1e-8;
  /// An iteration is a row update and then a column update. Some tens suffice at the paper's
  /// lambda. A problem that needs more than this is too sharp for its lambda.
  int64_t max_iterations = 10000;
};

struct SinkhornResult {
  at::Tensor plan;         ///< T [d, k] float64, the last iterate
  int64_t iterations = 0;  ///< number done
  double violation = 0.0;  ///< the larger of the two marginals' l1 violations of `plan`
  bool converged = false;
};

/// Computes T = argmin ⟨T, C⟩ − λH(T) with row sums 1/d and column sums 1/k (paper eq. 1), from
/// zero potentials. cost: [d, k] float64, finite. Stabilised: correct for any λ > 0 however large
/// cost/λ is. Throws std::runtime_error if cost/λ is not finite. Missing convergence is not an
/// error here.
SinkhornResult sinkhorn(const at::Tensor& cost, const SinkhornOptions& options);

}  // namespace dotresize
