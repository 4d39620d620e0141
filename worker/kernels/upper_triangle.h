#pragma once

#include <ATen/core/Tensor.h>

namespace dotresize {

/// matrix[j, i] = matrix[i, j] for i < j. matrix: [d, d] float64, contiguous, on any device.
void mirror_upper_triangle(at::Tensor& matrix);

}  // namespace dotresize
