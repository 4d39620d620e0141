#include "worker/transformer/forward.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "job/model/model_config.h"
#include "worker/transformer/attention.h"
#include "worker/transformer/linear.h"

namespace dotresize {
namespace {

// Returns update + x·shortcut. `update` [batch, tokens, k_out] is consumed: the sum is in place.
at::Tensor add_skip(at::Tensor update, const at::Tensor& x, const SublayerWeights& weights) {
  at::Tensor sum = update.view({-1, update.size(-1)});
  const at::Tensor rows = x.reshape({-1, x.size(-1)});
  if (weights.shortcut.defined()) {
    sum.addmm_(rows, weights.shortcut.to(at::kFloat));
    return update;
  }
  const int64_t common = std::min(rows.size(1), sum.size(1));
  sum.narrow(1, 0, common).add_(rows.narrow(1, 0, common));
  // The factors add x·A·B, or subtract x·A·A' if B is undefined (job/model/model_config.h).
  const at::Tensor& A = weights.shortcut_A;
  if (!A.defined()) return update;
  const at::Tensor low = at::mm(rows, A.to(at::kFloat));
  if (weights.shortcut_B.defined()) {
    sum.addmm_(low, weights.shortcut_B.to(at::kFloat));
  } else {
    sum.narrow(1, 0, common).addmm_(low, A.narrow(0, 0, common).t().to(at::kFloat), 1.0, -1.0);
  }
  return update;
}

/// Returns the input of in_proj: the stream x, normed if the sublayer has a norm before it.
at::Tensor normed_input(const ModelConfig& config, const SublayerWeights& weights,
                        const at::Tensor& x) {
  const bool has_norm = !config.norm_before(weights.sublayer).empty();
  return (has_norm ? rms_norm(x, weights.norm, config, config.hidden_size) : x)
      .to(activation_dtype(weights.in_proj.at(0).weight.scalar_type()));
}

/// Returns what out_proj writes; `features` receives what it reads.
at::Tensor update_of(const ModelConfig& config, const SublayerWeights& weights,
                     const LayerContext& context, const at::Tensor& x, KeyValueCache* cache,
                     const FeatureVisitor& features, const at::Tensor& experts) {
  const at::Tensor normed = normed_input(config, weights, x);
  if (is_attention(weights.sublayer)) {
    if (config.attention(weights.sublayer).delta_net) {
      if (cache != nullptr) cache->advance(x.size(1));
      DeltaNetState* const state = cache == nullptr ? nullptr : &cache->delta_net;
      return delta_net_forward(config, weights, normed, state, features).to(at::kFloat);
    }
    return attention_forward(config, weights, context, normed, cache, features).to(at::kFloat);
  }
  const MlpSpec& mlp = config.mlp(weights.sublayer);
  return (mlp.mixture ? mixture_forward(mlp, weights, normed, features, experts)
                      : mlp_forward(mlp, weights.in_proj, weights.out_proj.at(0), normed, features))
      .to(at::kFloat);
}

}  // namespace

at::Tensor post_norm_factor(const ModelConfig& config, const at::Tensor& update) {
  const auto width = static_cast<double>(config.hidden_size);
  return (update.square().sum(-1, /*keepdim=*/true) / width + config.rms_norm_eps).rsqrt();
}

at::Tensor sublayer_update(const ModelConfig& config, const SublayerWeights& weights,
                           const LayerContext& context, const at::Tensor& x, KeyValueCache* cache,
                           const FeatureVisitor& features, const at::Tensor& experts) {
  if (!features || !weights.post_norm.defined()) {
    return update_of(config, weights, context, x, cache, features, experts);
  }
  at::Tensor read;
  const auto keep = [&](int64_t, const at::Tensor& h) {
    TORCH_CHECK(!read.defined(), "a mixture of experts with a norm behind it");
    read = h.detach();
  };
  at::Tensor update = update_of(config, weights, context, x, cache, keep, experts);
  features(0, read * post_norm_factor(config, update.detach()));
  return update;
}

at::Tensor add_update(const ModelConfig& config, const SublayerWeights& weights, at::Tensor update,
                      const at::Tensor& x) {
  if (weights.post_norm.defined()) {
    update = rms_norm(update, weights.post_norm, config, config.hidden_size);
  }
  const double scale = config.layers.at(layer_of(weights.sublayer)).residual_scale;
  return add_skip(scale == 1.0 ? update : update * scale, x, weights);
}

at::Tensor sublayer_forward(const ModelConfig& config, const SublayerWeights& weights,
                            const LayerContext& context, const at::Tensor& x, KeyValueCache* cache,
                            const FeatureVisitor& features, const at::Tensor& experts) {
  if (is_skipped(config, weights.sublayer)) {
    const int64_t k_out = config.form.junction_widths.at(static_cast<size_t>(weights.sublayer) + 1);
    return add_skip(at::zeros({x.size(0), x.size(1), k_out}, x.options()), x, weights);
  }
  return add_update(config, weights,
                    sublayer_update(config, weights, context, x, cache, features, experts), x);
}

at::Tensor chosen_experts(const ModelConfig& config, const SublayerWeights& weights,
                          const at::Tensor& x) {
  const at::Tensor normed = normed_input(config, weights, x);
  const MixtureSpec& mixture = *config.mlp(weights.sublayer).mixture;
  return route(mixture, weights.in_proj.at(0), normed.reshape({-1, x.size(-1)}), {},
               weights.choice_bias)
      .experts;
}

at::Tensor final_norm(const ModelConfig& config, const HeadWeights& head, const at::Tensor& x) {
  const at::Tensor normed = rms_norm(x, head.norm, config, config.hidden_size);
  return config.logit_scale == 1.0 ? normed : normed * config.logit_scale;
}

at::Tensor final_state(const ModelConfig& config, const HeadWeights& head, const at::Tensor& x,
                       at::ScalarType dtype) {
  return project(final_norm(config, head, x), head.projection).to(dtype);
}

at::Tensor head_forward(const ModelConfig& config, const HeadWeights& head, const at::Tensor& x) {
  const at::Tensor states = final_state(config, head, x, head.weight.scalar_type());
  return logits_of(head.weight, states, config.logit_cap);
}

}  // namespace dotresize
