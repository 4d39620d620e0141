#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "job/model/model_config.h"
#include "worker/transformer/weights.h"

namespace dotresize {

/// Called with what feeds out_proj, in the weights' dtype or float32: of an MLP the features
/// silu(gate(x)) · up(x), [..., d_ff]. Of a mixture of experts once for each expert that a token
/// has chosen, with those of its tokens, times their weights for the expert; else `expert` is 0. Of
/// an attention see attention_forward.
using FeatureVisitor = std::function<void(int64_t expert, const at::Tensor& features)>;

/// down(silu(gate(x)) · up(x)) of normalised x [..., k_in], in the weights' activation_dtype
/// (half_product.h). in_proj: gate and up, or one that holds both; out_proj: down. Returns
/// [..., k_out], skip not added.
at::Tensor mlp_forward(const std::vector<Linear>& in_proj, const Linear& out_proj,
                       const at::Tensor& x, const FeatureVisitor& visit = nullptr);

/// The experts of each token, and their weights.
struct Routing {
  at::Tensor weights;  ///< [tokens, experts_per_token], in the router's activation_dtype
  at::Tensor experts;  ///< [tokens, experts_per_token] int64, no expert twice in a row
};

/// The most probable experts of each token x [tokens, k_in]: softmax(x·routerᵀ) in float32 over all
/// experts. Weights are the probabilities of those experts, divided by their sum if the config
/// norms them.
Routing route(const MixtureConfig& config, const Linear& router, const at::Tensor& x);

/// Likewise for these experts [tokens, experts_per_token] int64, whatever is most probable.
Routing route_to(const MixtureConfig& config, const Linear& router, const at::Tensor& x,
                 const at::Tensor& experts);

/// Σ weight · expert(x) over a token's experts, of normalised x [batch, tokens, k_in], in the
/// weights' activation_dtype. Each expert sees its own tokens alone; a token's sum runs in the
/// order of the experts. `experts`: of each token, as in route_to(); undefined: those of route().
/// Returns [batch, tokens, k_out], skip not added.
at::Tensor mixture_forward(const MixtureConfig& config, const SublayerWeights& weights,
                           const at::Tensor& x, const FeatureVisitor& visit = nullptr,
                           const at::Tensor& experts = {});

}  // namespace dotresize
