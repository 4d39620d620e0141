#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "job/model/model_config.h"
#include "worker/transformer/attention.h"
#include "worker/transformer/mlp.h"
#include "worker/transformer/rotary.h"
#include "worker/transformer/weights.h"

namespace dotresize {

// The model's arithmetic, one sublayer at a time. The residual stream, the norms and the product
// with the shortcut are float32; projections and attention run in the weights' dtype, projections
// of float16 with rows that are scaled (half_product.h). Callers hold
// c10::InferenceMode or at::NoGradGuard, but for those that need gradients (backward.h): of an x
// that requires them everything here is differentiable.

/// x / sqrt(Σ x² / divisor + eps) · γ in float32. x: [..., k]; γ [k] or undefined; divisor: the
/// original width d.
at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& gamma, int64_t divisor, double eps);

/// x [..., k_in] through in_proj: one result per part, [..., widths[i]], whether each part has a
/// matrix of its own or one holds them all. The results do not overlap.
std::vector<at::Tensor> apply_in_proj(const std::vector<Linear>& in_proj, const at::Tensor& x,
                                      at::IntArrayRef widths);

/// One sublayer with its skip: f(norm(x)) + x·shortcut; of one that is_skipped() the skip alone. x:
/// [batch, tokens, k_in] float32 (the residual stream); causal; the table holds at least `tokens`
/// positions. Returns [batch, tokens, k_out] float32. `cache`: of an attention, see
/// attention_forward; an MLP ignores it. `features`: gets what out_proj reads.
/// `experts`: of a mixture, see mixture_forward.
at::Tensor sublayer_forward(const ModelConfig& config, const SublayerWeights& weights,
                            const RotaryTable& rotary, const at::Tensor& x,
                            KeyValueCache* cache = nullptr,
                            const FeatureVisitor& features = nullptr,
                            const at::Tensor& experts = {});

/// The experts [tokens, experts_per_token] that the mixture's router chooses for x, as
/// sublayer_forward has it.
at::Tensor chosen_experts(const ModelConfig& config, const SublayerWeights& weights,
                          const at::Tensor& x);

/// x · projectionᵀ in float32; x itself without one. x: [..., in] float32, projection: [out, in].
at::Tensor project(const at::Tensor& x, const at::Tensor& projection);

/// What the rows of the head's matrix are multiplied with, of the final residual stream x
/// [..., k_2L] float32: normed and projected, [..., width] in `dtype`.
at::Tensor final_state(const ModelConfig& config, const HeadWeights& head, const at::Tensor& x,
                       at::ScalarType dtype);

/// Logits [..., vocab] float32 of the final residual stream x [..., k_2L] float32.
at::Tensor head_forward(const ModelConfig& config, const HeadWeights& head, const at::Tensor& x);

}  // namespace dotresize
