#pragma once

#include <ATen/ATen.h>

namespace dotresize {

/// Returns float32 activations that resemble a residual stream: channels of very different scale,
/// correlated, with means, and one channel far above the others.
inline at::Tensor stream_activations(int64_t tokens, int64_t width, uint64_t seed = 1) {
  at::manual_seed(seed);
  const at::Tensor scale = (0.7 * at::randn({width})).exp();
  const at::Tensor mixing = at::eye(width) + 0.5 * at::randn({width, width}) / std::sqrt(width);
  at::Tensor x = at::mm(at::randn({tokens, width}), mixing) * scale + 0.3 * at::randn({width});
  x.select(1, width / 2) *= 20;
  return x.contiguous();
}

}  // namespace dotresize
