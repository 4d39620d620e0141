#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace dotresize {

struct SinkhornOptions {
  double lambda = 0.1;  ///< weight of the entropy, in units of the cost
  /// Largest l1 violation of a marginal that counts as converged: far below what a plan's rounding
  /// to the output's dtype does, and far above what float64 can reach.
  double tolerance = 1e-8;
  /// An iteration is a row update and then a column update. At the paper's lambda some tens are
  /// enough; a problem that is not solved after so many is too sharp for its lambda.
  int64_t max_iterations = 10000;
};

struct SinkhornResult {
  at::Tensor plan;         ///< T [d, k] float64, the last iterate
  int64_t iterations = 0;  ///< done
  double violation = 0.0;  ///< the larger of the two marginals' l1 violations of `plan`
  bool converged = false;
};

/// T = argmin ⟨T, C⟩ − λH(T) with row sums 1/d and column sums 1/k (paper eq. 1), from zero
/// potentials. cost: [d, k] float64, finite. Stabilised: correct for any λ > 0 however large cost/λ
/// is. Throws std::runtime_error if cost/λ is not finite; that it did not converge is no error
/// here.
SinkhornResult sinkhorn(const at::Tensor& cost, const SinkhornOptions& options);

}  // namespace dotresize
