#include "worker/transformer/backward.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "worker/transformer/forward.h"

namespace dotresize {

at::Tensor gradient_through(const std::function<at::Tensor(const at::Tensor&)>& f,
                            const at::Tensor& x, const at::Tensor& g) {
  const c10::AutoGradMode with_gradients(true);
  const at::Tensor input = x.detach().requires_grad_();
  return torch::autograd::grad({f(input)}, {input}, {g}).front();
}

namespace {

/// gradient_through by way of float16, whose range is what is looked after. The scale depends on
/// the microbatch alone: all ranks would choose the same, and results do not depend on which one
/// does.
at::Tensor scaled_gradient_through(const std::function<at::Tensor(const at::Tensor&)>& f,
                                   const at::Tensor& x, const at::Tensor& g) {
  constexpr int kStep = 4;        // exponents; from one trial to the next
  constexpr int kMostTrials = 8;  // then the largest one is scaled to 2^-28, which float16 lacks
  const auto largest =
      at::linalg_vector_norm(g, std::numeric_limits<double>::infinity()).item<double>();
  if (!(largest > 0.0) || !std::isfinite(largest)) return gradient_through(f, x, g);
  int exponent = -std::ilogb(largest);
  for (int trial = 1;; ++trial, exponent -= kStep) {
    exponent = std::clamp(exponent, -120, 120);
    const at::Tensor found = gradient_through(f, x, g * std::exp2(exponent));
    const bool finite = std::isfinite(found.sum(at::kDouble).item<double>());
    if (finite || trial == kMostTrials) return found * std::exp2(-exponent);
  }
}

}  // namespace

at::Tensor sublayer_gradient(const ModelConfig& config, const SublayerWeights& weights,
                             const RotaryTable& rotary, const at::Tensor& x, const at::Tensor& g) {
  const auto forward = [&](const at::Tensor& input) {
    return sublayer_forward(config, weights, rotary, input);
  };
  const bool half = weights.out_proj.at(0).weight.scalar_type() == at::kHalf;
  if (half && is_attention(weights.sublayer)) return scaled_gradient_through(forward, x, g);
  return gradient_through(forward, x, g);
}

}  // namespace dotresize
