#include "worker/transformer/mlp.h"

#include <ATen/ATen.h>

#include <tuple>

#include "worker/transformer/linear.h"

namespace dotresize {

at::Tensor mlp_forward(Activation activation, const std::vector<Linear>& in_proj,
                       const Linear& out_proj, const at::Tensor& x, const FeatureVisitor& visit) {
  const int64_t rows = out_proj.weight.size(1);
  const std::vector<at::Tensor> parts = apply_in_proj(in_proj, x, {rows, rows});
  at::Tensor hidden = parts[0];
  if (activation == Activation::kGeluTanh) {
    hidden = at::gelu(hidden, "tanh") * parts[1];
  } else if (hidden.requires_grad()) {
    hidden = at::silu(hidden) * parts[1];
  } else {
    at::silu_(hidden).mul_(parts[1]);
  }
  if (visit) visit(0, hidden);
  return apply_linear(out_proj, hidden);
}

Routing route(const MixtureSpec& config, const Linear& router, const at::Tensor& x,
              const at::Tensor& given) {
  const at::Tensor logits = apply_linear({router.weight, {}}, x);
  const at::Tensor probabilities = at::softmax(logits, /*dim=*/-1, at::kFloat);
  at::Tensor experts = given;
  at::Tensor weights;
  if (given.defined()) {
    weights = probabilities.gather(/*dim=*/-1, given);
  } else {
    std::tie(weights, experts) = at::topk(probabilities, config.experts_per_token, /*dim=*/-1);
  }
  if (config.normed_weights) weights = weights / weights.sum(/*dim=*/-1, /*keepdim=*/true);
  return {weights.to(logits.scalar_type()), experts};
}

at::Tensor mixture_forward(const MlpSpec& config, const SublayerWeights& weights,
                           const at::Tensor& x, const FeatureVisitor& visit,
                           const at::Tensor& experts) {
  const at::Tensor tokens = x.reshape({-1, x.size(-1)});
  const MixtureSpec& mixture = *config.mixture;
  const Routing routing = route(mixture, weights.in_proj.at(0), tokens, experts);
  const int64_t k_out = weights.out_proj.at(0).weight.size(0);
  at::Tensor sum = at::zeros({tokens.size(0), k_out}, tokens.options());
  for (int64_t expert = 0; expert < mixture.experts; ++expert) {
    const at::Tensor places = at::nonzero(routing.experts == expert);  // [n, 2]: token, column
    if (places.size(0) == 0) continue;
    const at::Tensor chosen = places.select(1, 0);
    const auto gate = weights.in_proj.begin() + 1 + 2 * expert;
    const at::Tensor weight = routing.weights.index({chosen, places.select(1, 1)}).unsqueeze(1);
    FeatureVisitor visit_weighted;
    if (visit) {
      visit_weighted = [&](int64_t, const at::Tensor& h) { visit(expert, h * weight); };
    }
    const at::Tensor result =
        mlp_forward(config.activation, {gate, gate + 2}, weights.out_proj[expert],
                    tokens.index_select(0, chosen), visit_weighted);
    sum.index_add_(0, chosen, result * weight);
  }
  return sum.view({x.size(0), x.size(1), k_out});
}

}  // namespace dotresize
