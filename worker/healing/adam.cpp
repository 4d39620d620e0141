#include "worker/healing/adam.h"

#include <ATen/ATen.h>

#include <cmath>

namespace dotresize {

void adam_step(AdamState& state, const at::Tensor& gradient, int64_t steps, double learning_rate) {
  constexpr double kBeta1 = 0.9;
  constexpr double kBeta2 = 0.999;
  constexpr double kEpsilon = 1e-8;
  state.first.mul_(kBeta1).add_(gradient, 1.0 - kBeta1);
  state.second.mul_(kBeta2).addcmul_(gradient, gradient, 1.0 - kBeta2);
  const double first_scale = 1.0 - std::pow(kBeta1, static_cast<double>(steps));
  const double second_scale = 1.0 - std::pow(kBeta2, static_cast<double>(steps));
  const at::Tensor root = state.second.div(second_scale).sqrt_().add_(kEpsilon);
  state.value.addcdiv_(state.first, root, -learning_rate / first_scale);
}

}  // namespace dotresize
