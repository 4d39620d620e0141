#include "worker/maps/spreading.h"

#include <ATen/ATen.h>

#include <cmath>
#include <numbers>
#include <random>
#include <vector>

namespace dotresize {
namespace {

/// Returns [k] of random 1 and -1.
at::Tensor drawn_signs(int64_t k) {
  std::mt19937 bits;  // the C++ standard fixes its numbers
  std::vector<double> signs(static_cast<size_t>(k));
  for (double& sign : signs) sign = (bits() & 1u) == 0 ? 1.0 : -1.0;
  return at::tensor(signs, at::kDouble);
}

}  // namespace

at::Tensor spreading_rotation(int64_t k) {
  // R_ij = s_i·sqrt(2/k)·cos(π(2i+1)j / 2k); column 0 is divided by sqrt(2). The angle is reduced
  // in integers, because the cosine of a large angle would be rounded.
  const at::Tensor index = at::arange(k, at::kLong);
  const auto channels = static_cast<double>(k);
  at::Tensor rotation = at::outer(2 * index + 1, index).remainder_(4 * k).to(at::kDouble);
  rotation.mul_(std::numbers::pi / (2.0 * channels)).cos_().mul_(std::sqrt(2.0 / channels));
  rotation.select(1, 0).mul_(std::sqrt(0.5));
  return rotation.mul_(drawn_signs(k).unsqueeze(1));
}

}  // namespace dotresize
