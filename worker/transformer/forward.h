#pragma once

#include <ATen/core/Tensor.h>

#include "job/model/model_config.h"
#include "worker/transformer/attention.h"
#include "worker/transformer/mlp.h"
#include "worker/transformer/rotary.h"
#include "worker/transformer/weights.h"

namespace dotresize {

// The model's arithmetic, one sublayer at a time. The residual stream, norms and products with the
// shortcut are float32. Projections and attention run in the weights' dtype; float16 projections
// scale their rows (linear.h). Callers hold c10::InferenceMode or at::NoGradGuard, except
// those that need gradients (backward.h): everything here is differentiable for an x that requires
// gradients.

/// Runs one sublayer with its skip: f(norm(x)) + x·shortcut, or only the skip if is_skipped().
/// Causal. x: [batch, tokens, k_in] float32 (the residual stream). Returns [batch, tokens, k_out]
/// float32. `context`: of at least `tokens` positions. `cache`: see attention_forward; an MLP
/// ignores it. `features`: receives the input of out_proj, of a sublayer with a norm behind it
/// times post_norm_factor. `experts`: see mixture_forward.
at::Tensor sublayer_forward(const ModelConfig& config, const SublayerWeights& weights,
                            const LayerContext& context, const at::Tensor& x,
                            KeyValueCache* cache = nullptr,
                            const FeatureVisitor& features = nullptr,
                            const at::Tensor& experts = {});

/// First half of sublayer_forward: what out_proj writes, [batch, tokens, k_out] float32. Not for a
/// sublayer of which is_skipped() is true.
at::Tensor sublayer_update(const ModelConfig& config, const SublayerWeights& weights,
                           const LayerContext& context, const at::Tensor& x,
                           KeyValueCache* cache = nullptr, const FeatureVisitor& features = nullptr,
                           const at::Tensor& experts = {});

/// Returns the factors r [..., 1] by which the norm behind out_proj multiplies its tokens, u. An
/// error of r·u changes the stream as much for every token, so sums over tokens take r·h for
/// features h, and g/r for gradients g of u.
at::Tensor post_norm_factor(const ModelConfig& config, const at::Tensor& update);

/// Second half: adds the update, through its norm and factor, to the skip path of x. Consumes the
/// update.
at::Tensor add_update(const ModelConfig& config, const SublayerWeights& weights, at::Tensor update,
                      const at::Tensor& x);

/// Returns the experts [tokens, experts_per_token] that the mixture's router chooses for x, the
/// input of sublayer_forward.
at::Tensor chosen_experts(const ModelConfig& config, const SublayerWeights& weights,
                          const at::Tensor& x);

/// Returns the final residual stream x [..., k_2L] float32, normed, times the factor of the logits.
at::Tensor final_norm(const ModelConfig& config, const HeadWeights& head, const at::Tensor& x);

/// Returns the input of the head's matrix: final_norm() of x [..., k_2L] float32, projected, [...,
/// width] in `dtype`.
at::Tensor final_state(const ModelConfig& config, const HeadWeights& head, const at::Tensor& x,
                       at::ScalarType dtype);

/// Returns logits [..., vocab] float32 of the final residual stream x [..., k_2L] float32.
at::Tensor head_forward(const ModelConfig& config, const HeadWeights& head, const at::Tensor& x);

}  // namespace dotresize
