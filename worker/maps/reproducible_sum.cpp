#include "worker/maps/reproducible_sum.h"

#include <ATen/ATen.h>

#include <cmath>

namespace dotresize {

ReproducibleSum::ReproducibleSum(double bound) {
  if (bound == 0.0) return;
  const double quantum = std::exp2(std::ceil(std::log2(bound)) - 50.0);
  shift_ = 1.5 * std::exp2(52.0) * quantum;
}

void ReproducibleSum::round(at::Tensor& summand) const {
  if (shift_ != 0.0) summand.add_(shift_).sub_(shift_);
}

}  // namespace dotresize
