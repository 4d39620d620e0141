#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

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

/// Smallest r whose leading eigenvalues hold at least `share` of the trace. values: [d] float64,
/// descending.
int64_t effective_rank(const at::Tensor& values, double share = 0.99);

}  // namespace dotresize
