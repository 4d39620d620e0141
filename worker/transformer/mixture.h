#pragma once

#include <ATen/core/Tensor.h>

#include "job/model/model_config.h"
#include "worker/transformer/weights.h"

namespace dotresize {

/// Which experts a token goes through, and with which weights.
struct Routing {
  at::Tensor weights;  ///< [tokens, experts_per_token], in the dtype of the router
  at::Tensor experts;  ///< [tokens, experts_per_token] int64, no expert twice in a row
};

/// The most probable experts of each token x [tokens, k_in]: softmax(x·routerᵀ) in float32 over all
/// experts, and of the greatest the probability, or its share of their sum where the config norms
/// the weights.
Routing route(const MixtureConfig& config, const Linear& router, const at::Tensor& x);

/// Σ weight · expert(x) over a token's experts, of normalised x [batch, tokens, k_in], in the
/// weights' dtype. Each expert sees its own tokens alone; a token's sum runs in the order of the
/// experts. Returns [batch, tokens, k_out], skip not added.
at::Tensor mixture_forward(const MixtureConfig& config, const SublayerWeights& weights,
                           const at::Tensor& x);

}  // namespace dotresize
