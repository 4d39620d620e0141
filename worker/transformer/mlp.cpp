#include "worker/transformer/mlp.h"

#include <ATen/ATen.h>

#include <limits>
#include <tuple>

#include "worker/transformer/linear.h"

namespace dotresize {

namespace {

/// Returns the scores [tokens, experts] as they are for the choice: -inf outside the best groups.
at::Tensor within_best_groups(const MixtureSpec& config, const at::Tensor& scores) {
  if (config.groups_per_token == config.groups) return scores;
  const at::Tensor by_group = scores.unflatten(-1, {config.groups, -1});  // [tokens, groups, size]
  const at::Tensor of_groups = std::get<0>(at::topk(by_group, 2, /*dim=*/-1)).sum(/*dim=*/-1);
  const at::Tensor best = std::get<1>(at::topk(of_groups, config.groups_per_token, /*dim=*/-1));
  const at::Tensor others = at::ones_like(of_groups, at::kBool).scatter(/*dim=*/-1, best, false);
  return by_group.masked_fill(others.unsqueeze(-1), -std::numeric_limits<double>::infinity())
      .flatten(-2);
}

/// Returns the output of the shared expert for `tokens` [tokens, k_in], times its gate.
at::Tensor shared_forward(const MlpSpec& config, const SublayerWeights& weights,
                          const at::Tensor& tokens, const FeatureVisitor& visit) {
  const int64_t experts = config.mixture->experts;
  const auto first = weights.in_proj.begin() + 1 + config.in_matrices() * experts;
  at::Tensor gate;
  if (first + 2 != weights.in_proj.end()) gate = at::sigmoid(apply_linear(*(first + 2), tokens));
  FeatureVisitor visit_gated;
  if (visit) {
    visit_gated = [&](int64_t, const at::Tensor& h) {
      visit(experts, gate.defined() ? h * gate : h);
    };
  }
  const at::Tensor result =
      mlp_forward(config, {first, first + 2}, weights.out_proj[experts], tokens, visit_gated);
  return gate.defined() ? result * gate : result;
}

/// Returns gate(x) and up(x), each [..., rows]. They do not overlap.
std::vector<at::Tensor> gate_and_up(const MlpSpec& config, const std::vector<Linear>& in_proj,
                                    const at::Tensor& x, int64_t rows) {
  if (!config.interleaved) return apply_in_proj(in_proj, x, {rows, rows});
  return apply_linear(in_proj.at(0), x).unflatten(-1, {rows, 2}).unbind(-1);
}

at::Tensor limited_features(const LimitedGlu& form, at::Tensor gate, at::Tensor up) {
  if (gate.requires_grad()) {
    gate = gate.clamp_max(form.limit);
    return (up.clamp(-form.limit, form.limit) + 1) * (gate * at::sigmoid(gate * form.sharpness));
  }
  gate.clamp_max_(form.limit);
  up.clamp_(-form.limit, form.limit).add_(1);
  return (gate * form.sharpness).sigmoid_().mul_(gate).mul_(up);
}

/// Returns the features [..., rows]. Without gradients gate and up are consumed.
at::Tensor features_of(const MlpSpec& config, const at::Tensor& gate, const at::Tensor& up) {
  if (config.limited) return limited_features(*config.limited, gate, up);
  if (config.activation == Activation::kGeluTanh) return at::gelu(gate, "tanh") * up;
  if (gate.requires_grad()) return at::silu(gate) * up;
  at::Tensor hidden = gate;
  return at::silu_(hidden).mul_(up);
}

}  // namespace

at::Tensor mlp_forward(const MlpSpec& config, const std::vector<Linear>& in_proj,
                       const Linear& out_proj, const at::Tensor& x, const FeatureVisitor& visit) {
  const std::vector<at::Tensor> parts = gate_and_up(config, in_proj, x, out_proj.weight.size(1));
  const at::Tensor hidden = features_of(config, parts[0], parts[1]);
  if (visit) visit(0, hidden);
  return apply_linear(out_proj, hidden);
}

Routing route(const MixtureSpec& config, const Linear& router, const at::Tensor& x,
              const at::Tensor& given, const at::Tensor& choice_bias) {
  const bool sigmoid = config.scores == RouterScores::kSigmoid;
  // transformers rounds the logits of a softmax to the dtype of the weights.
  const at::Tensor logits = sigmoid ? at::linear(x.to(at::kFloat), router.weight.to(at::kFloat))
                                    : apply_linear(router, x);
  const at::Tensor scores = sigmoid ? at::sigmoid(logits) : at::softmax(logits, -1, at::kFloat);
  at::Tensor experts = given;
  if (!given.defined()) {
    const at::Tensor biased = choice_bias.defined() ? scores + choice_bias : scores;
    experts = std::get<1>(at::topk(within_best_groups(config, biased.detach()),
                                   config.experts_per_token, /*dim=*/-1));
  }
  at::Tensor weights = scores.gather(/*dim=*/-1, experts);
  // All sigmoids may be zero.
  if (config.normed_weights) weights = weights / (weights.sum(-1, /*keepdim=*/true) + 1e-20);
  if (config.weight_scale != 1.0) weights = weights * config.weight_scale;
  return {weights.to(logits.scalar_type()), experts};
}

at::Tensor mixture_forward(const MlpSpec& config, const SublayerWeights& weights,
                           const at::Tensor& x, const FeatureVisitor& visit,
                           const at::Tensor& experts) {
  const at::Tensor tokens = x.reshape({-1, x.size(-1)});
  const MixtureSpec& mixture = *config.mixture;
  const Routing routing =
      route(mixture, weights.in_proj.at(0), tokens, experts, weights.choice_bias);
  const int64_t k_out = weights.out_proj.at(0).weight.size(0);
  at::Tensor sum = at::zeros({tokens.size(0), k_out}, tokens.options());
  for (int64_t expert = 0; expert < mixture.experts; ++expert) {
    const at::Tensor places = at::nonzero(routing.experts == expert);  // [n, 2]: token, column
    if (places.size(0) == 0) continue;
    const at::Tensor chosen = places.select(1, 0);
    const auto first = weights.in_proj.begin() + 1 + config.in_matrices() * expert;
    const at::Tensor weight = routing.weights.index({chosen, places.select(1, 1)}).unsqueeze(1);
    FeatureVisitor visit_weighted;
    if (visit) {
      visit_weighted = [&](int64_t, const at::Tensor& h) { visit(expert, h * weight); };
    }
    const at::Tensor result =
        mlp_forward(config, {first, first + config.in_matrices()}, weights.out_proj[expert],
                    tokens.index_select(0, chosen), visit_weighted);
    sum.index_add_(0, chosen, (result * weight).to(sum.scalar_type()));
  }
  if (shared_features(config) > 0) sum = sum + shared_forward(config, weights, tokens, visit);
  return sum.view({x.size(0), x.size(1), k_out});
}

}  // namespace dotresize
