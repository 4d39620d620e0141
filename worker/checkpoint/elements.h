#pragma once

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace dotresize {

/// Calls `visit(block, first)` for the tensor's slices in row-major order. A slice is a view, never
/// a copy, of about `block_elements` elements. A contiguous tensor is cut anywhere, another one
/// only along its first dimension. `first` is the position of the block's first element.
template <typename Visit>
void for_each_block(const at::Tensor& tensor, const Visit& visit,
                    int64_t block_elements = int64_t{1} << 22) {
  if (tensor.numel() == 0) return;
  const at::Tensor rows = tensor.is_contiguous() ? tensor.view({-1}) : tensor;
  const int64_t row_elements = rows.numel() / rows.size(0);
  const int64_t step = std::max<int64_t>(1, block_elements / row_elements);
  for (int64_t row = 0; row < rows.size(0); row += step) {
    visit(rows.narrow(0, row, std::min(step, rows.size(0) - row)), row * row_elements);
  }
}

/// True if a floating tensor holds neither NaN nor infinity. One pass, no temporary tensor.
inline bool all_finite(const at::Tensor& tensor) {
  if (tensor.numel() == 0) return true;
  const auto [smallest, largest] = at::aminmax(tensor);  // both are NaN if any element is
  return std::isfinite(smallest.item<double>()) && std::isfinite(largest.item<double>());
}

}  // namespace dotresize
