#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "job/model/model_config.h"
#include "worker/transformer/weights.h"

namespace dotresize {

/// Called with the input of out_proj, in the weights' dtype or float32. MLP: the features
/// activation(gate(x)) · up(x), [..., d_ff], with `expert` 0. Mixture of experts: called for each
/// expert that a token has chosen, with the features of its tokens, multiplied by their weights for
/// the expert; then for the shared one, as the last expert, with those of all tokens, multiplied by
/// its gate. Attention: see attention_forward.
using FeatureVisitor = std::function<void(int64_t expert, const at::Tensor& features)>;

/// Returns down(activation(gate(x)) · up(x)), or down of what MlpSpec::limited says, of normalised
/// x [..., k_in], in the weights' activation_dtype (linear.h). in_proj: gate and up, or one fused
/// matrix; out_proj: down. Returns [..., k_out], skip not added.
at::Tensor mlp_forward(const MlpSpec& config, const std::vector<Linear>& in_proj,
                       const Linear& out_proj, const at::Tensor& x,
                       const FeatureVisitor& visit = nullptr);

/// Experts of each token, and their weights.
struct Routing {
  /// [tokens, experts_per_token], in the router's activation_dtype; sigmoids are float32
  at::Tensor weights;
  at::Tensor experts;  ///< [tokens, experts_per_token] int64, no expert twice in a row
};

/// Returns the experts of each token x [tokens, k_in]: `given` [tokens, experts_per_token] int64,
/// or if it is undefined those of the highest scores, plus `choice_bias` if it is defined. Scores
/// are float32, of x·routerᵀ plus its bias. Weights are the scores of these experts, divided by
/// their sum if the config norms them, times the config's factor.
Routing route(const MixtureSpec& config, const Linear& router, const at::Tensor& x,
              const at::Tensor& given = {}, const at::Tensor& choice_bias = {});

/// Returns Σ weight · expert(x) over a token's experts, plus the shared expert, for normalised x
/// [batch, tokens, k_in], in the weights' activation_dtype. Each expert sees only its own tokens. A
/// token's sum runs in the order of the experts. `experts`: the experts of each token, as in
/// route(); undefined: those that it chooses. Returns [batch, tokens, k_out], skip not added.
at::Tensor mixture_forward(const MlpSpec& config, const SublayerWeights& weights,
                           const at::Tensor& x, const FeatureVisitor& visit = nullptr,
                           const at::Tensor& experts = {});

}  // namespace dotresize
