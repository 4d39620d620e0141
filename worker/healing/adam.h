#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace dotresize {

/// Parameter values with the moments of their gradients, all of one shape, float32.
struct AdamState {
  at::Tensor value;
  at::Tensor first;
  at::Tensor second;
};

/// One step of Adam (Kingma and Ba, 2015; β 0.9 and 0.999, ε 1e-8, no weight decay), in place.
/// `steps`: number of steps, including this one.
void adam_step(AdamState& state, const at::Tensor& gradient, int64_t steps, double learning_rate);

}  // namespace dotresize
