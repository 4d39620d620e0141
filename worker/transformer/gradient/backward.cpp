#include "worker/transformer/gradient/backward.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "worker/transformer/forward.h"

namespace dotresize {
namespace {

/// Returns the gradients of the input and of these leaves. Keeps the graph.
std::vector<at::Tensor> gradients_in(const SublayerGraph& graph,
                                     const std::vector<at::Tensor>& leaves, const at::Tensor& g) {
  std::vector<at::Tensor> inputs = {graph.input};
  inputs.insert(inputs.end(), leaves.begin(), leaves.end());
  return torch::autograd::grad({graph.output}, inputs, {g}, /*retain_graph=*/true,
                               /*create_graph=*/false, /*allow_unused=*/true);
}

/// Like gradients_in, with g scaled to the range of float16. The scale depends only on the
/// microbatch, so results do not depend on which rank computes it.
std::vector<at::Tensor> scaled_gradients_in(const SublayerGraph& graph,
                                            const std::vector<at::Tensor>& leaves,
                                            const at::Tensor& g) {
  constexpr int kStep = 4;        // exponents between two trials
  constexpr int kMostTrials = 8;  // the last one scales g to 2^-28, too small for float16
  const auto largest =
      at::linalg_vector_norm(g, std::numeric_limits<double>::infinity()).item<double>();
  if (!(largest > 0.0) || !std::isfinite(largest)) return gradients_in(graph, leaves, g);
  int exponent = -std::ilogb(largest);
  for (int trial = 1;; ++trial, exponent -= kStep) {
    exponent = std::clamp(exponent, -120, 120);
    std::vector<at::Tensor> found = gradients_in(graph, leaves, g * std::exp2(exponent));
    const bool finite = std::ranges::all_of(found, [](const at::Tensor& gradient) {
      return !gradient.defined() || std::isfinite(gradient.sum(at::kDouble).item<double>());
    });
    if (!finite && trial < kMostTrials) continue;
    for (at::Tensor& gradient : found) {
      if (gradient.defined()) gradient = gradient * std::exp2(-exponent);
    }
    return found;
  }
}

}  // namespace

SublayerGraph sublayer_graph(const ModelConfig& config, const SublayerWeights& weights,
                             const LayerContext& context, const at::Tensor& x,
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
  if (!weights.post_norm.defined()) {
    return {.input = input,
            .output = sublayer_forward(config, weights, context, input, nullptr, without_graph)};
  }
  const at::Tensor update =
      sublayer_update(config, weights, context, input, nullptr, without_graph);
  return {.input = input,
          .update = update,
          .factor = post_norm_factor(config, update.detach()),
          .output = add_update(config, weights, update, input)};
}

std::vector<at::Tensor> updates_of(const SublayerWeights& weights) {
  std::vector<at::Tensor> updates;
  for (const std::vector<Linear>* linears : {&weights.in_proj, &weights.out_proj}) {
    for (const Linear& linear : *linears) {
      if (!linear.update.A.defined()) continue;
      updates.push_back(linear.update.A);
      updates.push_back(linear.update.B);
    }
  }
  return updates;
}

SublayerGradients gradients_through(const SublayerGraph& graph, const SublayerWeights& weights,
                                    const at::Tensor& g) {
  std::vector<at::Tensor> leaves = updates_of(weights);
  const auto is_leaf = [](const at::Tensor& update) { return update.requires_grad(); };
  if (!std::ranges::all_of(leaves, is_leaf)) leaves.clear();
  if (graph.update.defined()) leaves.push_back(graph.update);
  const bool half =
      !weights.out_proj.empty() && weights.out_proj.front().weight.scalar_type() == at::kHalf;
  std::vector<at::Tensor> found = half && is_attention(weights.sublayer)
                                      ? scaled_gradients_in(graph, leaves, g)
                                      : gradients_in(graph, leaves, g);
  SublayerGradients gradients{.input = found.front(), .updates = {}};
  if (graph.update.defined()) {
    gradients.update = found.back() / graph.factor;
    found.pop_back();
  }
  gradients.updates.assign(found.begin() + 1, found.end());
  return gradients;
}

at::Tensor gradient_through(const std::function<at::Tensor(const at::Tensor&)>& f,
                            const at::Tensor& x, const at::Tensor& g) {
  const c10::AutoGradMode with_gradients(true);
  const at::Tensor input = x.detach().requires_grad_();
  return torch::autograd::grad({f(input)}, {input}, {g}).front();
}

}  // namespace dotresize
