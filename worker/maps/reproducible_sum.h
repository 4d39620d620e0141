#pragma once

#include <ATen/core/Tensor.h>

namespace dotresize {

/// Rounds the summands of a sum to multiples of 2^-50 of a bound (docs/method.md, "Moments"):
/// float64 adds such multiples up without error, so the sum does not depend on the order of
/// addition, hence not on the number of ranks, bit by bit.
class ReproducibleSum {
 public:
  /// No partial sum exceeds `bound` in magnitude. 0, for sums of zeros: rounds nothing.
  explicit ReproducibleSum(double bound = 0.0);
  /// summand: float64, changed in place.
  void round(at::Tensor& summand) const;
  /// The number that is added and subtracted to round: its last place is the multiple.
  double shift() const { return shift_; }

 private:
  double shift_ = 0.0;
};

}  // namespace dotresize
