#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace dotresize {

/// Indices of the k largest scores, ascending; a tie goes to the lower index. scores: [d] float64.
/// Returns [k] int64.
at::Tensor select_support(const at::Tensor& scores, int64_t k);

}  // namespace dotresize
