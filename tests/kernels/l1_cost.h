#pragma once

#include <ATen/ATen.h>

#include "worker/kernels/l1_cost.h"

namespace dotresize {

/// Returns the cost of these activations alone: [width, width] float64, both triangles, on the
/// device of `x`.
inline at::Tensor l1_cost(const at::Tensor& x) {
  at::Tensor cost = at::zeros({x.size(1), x.size(1)}, x.options().dtype(at::kDouble));
  add_l1_cost(x, cost);
  mirror_upper_triangle(cost);
  return cost;
}

}  // namespace dotresize
