#pragma once

#include <ATen/core/Tensor.h>

namespace dotresize {

/// Rounds the summands of a sum to multiples of 2^-50 of a bound (docs/method.md, "Moments").
/// float64 adds such multiples without error, so the sum does not depend, bit by bit, on the order
/// of addition, hence not on the number of ranks.
class ReproducibleSum {
 public:
  /// `bound`: largest magnitude of a partial sum. 0 (sums of zeros): no rounding.
  explicit ReproducibleSum(double bound = 0.0);
  /// summand: float64, changed in place.
  void round(at::Tensor& summand) const;
  /// Number that is added and subtracted to round; its last place is the quantum.
  double shift() const { return shift_; }

 private:
  double shift_ = 0.0;
};

}  // namespace dotresize
