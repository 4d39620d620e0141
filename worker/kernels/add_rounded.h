#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/ops/zeros_like.h>

namespace dotresize {

/// Adds to `total` what add(sums) adds to zeros, rounded: what is left of it when `shift` has been
/// added and subtracted (l1_cost.h). Needs a matrix like `total`, unless shift is 0.
template <class Add>
void add_rounded(at::Tensor& total, double shift, const Add& add) {
  if (shift == 0.0) return add(total);
  at::Tensor sums = at::zeros_like(total);
  add(sums);
  total.add_(sums.add_(shift).sub_(shift));
}

}  // namespace dotresize
