#pragma once

#include <ATen/ATen.h>

#include <cstdint>

namespace dotresize {

// Inputs for the kernel tests on the CPU, on a GPU and in emulation. The same sizes give the same
// inputs.

/// Returns standard normal [tokens, width] float32.
inline at::Tensor activations(int64_t tokens, int64_t width) {
  at::manual_seed(tokens * 10007 + width);
  return at::randn({tokens, width});
}

/// Returns l1 distances between random channels, which resemble real costs: [d, k] float64, scaled
/// to a largest value of 1 (or all 0).
inline at::Tensor random_cost(int64_t d, int64_t k) {
  at::manual_seed(d * 1009 + k);
  const at::Tensor channels = at::randn({d, 50}, at::kDouble);
  const at::Tensor cost = at::cdist(channels, channels.narrow(0, 0, k), 1.0);
  return cost / cost.max().clamp_min(1e-300);
}

}  // namespace dotresize
