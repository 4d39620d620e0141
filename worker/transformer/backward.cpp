#include "worker/transformer/backward.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/autograd.h>

#include "worker/transformer/forward.h"

namespace dotresize {

at::Tensor gradient_through(const std::function<at::Tensor(const at::Tensor&)>& f,
                            const at::Tensor& x, const at::Tensor& g) {
  const c10::AutoGradMode with_gradients(true);
  const at::Tensor input = x.detach().requires_grad_();
  return torch::autograd::grad({f(input)}, {input}, {g}).front();
}

at::Tensor sublayer_gradient(const ModelConfig& config, const SublayerWeights& weights,
                             const RotaryTable& rotary, const at::Tensor& x, const at::Tensor& g) {
  const auto forward = [&](const at::Tensor& input) {
    return sublayer_forward(config, weights, rotary, input);
  };
  return gradient_through(forward, x, g);
}

}  // namespace dotresize
