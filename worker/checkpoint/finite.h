#pragma once

#include <ATen/core/Tensor.h>

namespace dotresize {

/// True if a floating tensor holds neither NaN nor infinity. One pass, no temporary tensor.
bool all_finite(const at::Tensor& tensor);

}  // namespace dotresize
