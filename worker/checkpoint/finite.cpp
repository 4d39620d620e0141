#include "worker/checkpoint/finite.h"

#include <ATen/ATen.h>

#include <cmath>

namespace dotresize {

bool all_finite(const at::Tensor& tensor) {
  if (tensor.numel() == 0) {
    return true;
  }
  const auto [smallest, largest] = at::aminmax(tensor);  // both are NaN if any element is
  return std::isfinite(smallest.item<double>()) && std::isfinite(largest.item<double>());
}

}  // namespace dotresize
