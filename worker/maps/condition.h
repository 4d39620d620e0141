#pragma once

#include <ATen/core/Tensor.h>

namespace dotresize {

/// The 2-norm condition of an upper triangular matrix R [k, k] float64 without zeros on its
/// diagonal, to a relative error of 1e-6 (conditions up to 1e9). On any device; computed on the
/// host. A few dozen products with R and R⁻¹; singular values take O(k³).
double triangular_condition(const at::Tensor& R);

}  // namespace dotresize
