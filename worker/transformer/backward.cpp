#include "worker/transformer/backward.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "worker/transformer/forward.h"

namespace dotresize {
namespace {

/// The graph may be asked again.
at::Tensor gradient_in(const SublayerGraph& graph, const at::Tensor& g) {
  return torch::autograd::grad({graph.output}, {graph.input}, {g}, /*retain_graph=*/true).front();
}

/// By way of float16, whose range is what is looked after. The scale depends on the microbatch
/// alone: all ranks would choose the same, and results do not depend on which one does.
at::Tensor scaled_gradient_in(const SublayerGraph& graph, const at::Tensor& g) {
  constexpr int kStep = 4;        // exponents; from one trial to the next
  constexpr int kMostTrials = 8;  // then the largest one is scaled to 2^-28, which float16 lacks
  const auto largest =
      at::linalg_vector_norm(g, std::numeric_limits<double>::infinity()).item<double>();
  if (!(largest > 0.0) || !std::isfinite(largest)) return gradient_in(graph, g);
  int exponent = -std::ilogb(largest);
  for (int trial = 1;; ++trial, exponent -= kStep) {
    exponent = std::clamp(exponent, -120, 120);
    const at::Tensor found = gradient_in(graph, g * std::exp2(exponent));
    const bool finite = std::isfinite(found.sum(at::kDouble).item<double>());
    if (finite || trial == kMostTrials) return found * std::exp2(-exponent);
  }
}

}  // namespace

SublayerGraph sublayer_graph(const ModelConfig& config, const SublayerWeights& weights,
                             const RotaryTable& rotary, const at::Tensor& x,
                             const FeatureVisitor& features) {
  const c10::AutoGradMode with_gradients(true);
  FeatureVisitor without_graph;
  if (features) {
    without_graph = [&](int64_t expert, const at::Tensor& h) {
      const c10::NoGradGuard no_gradients;
      features(expert, h.detach());
    };
  }
  const at::Tensor input = x.detach().requires_grad_();
  return {input, sublayer_forward(config, weights, rotary, input, nullptr, without_graph)};
}

at::Tensor gradient_through(const SublayerGraph& graph, const SublayerWeights& weights,
                            const at::Tensor& g) {
  const bool half =
      !weights.out_proj.empty() && weights.out_proj.front().weight.scalar_type() == at::kHalf;
  return half && is_attention(weights.sublayer) ? scaled_gradient_in(graph, g)
                                                : gradient_in(graph, g);
}

at::Tensor gradient_through(const std::function<at::Tensor(const at::Tensor&)>& f,
                            const at::Tensor& x, const at::Tensor& g) {
  const c10::AutoGradMode with_gradients(true);
  const at::Tensor input = x.detach().requires_grad_();
  return torch::autograd::grad({f(input)}, {input}, {g}).front();
}

}  // namespace dotresize
