#pragma once

#include <ATen/core/Tensor.h>

#include "job/model/model_config.h"
#include "worker/transformer/key_value_cache.h"
#include "worker/transformer/rotary.h"
#include "worker/transformer/weights.h"

namespace dotresize {

/// Causal self-attention of normalised x [batch, tokens, k_in], in the weights' dtype: query head h
/// attends to key head h / (heads / kv_heads). Returns [batch, tokens, k_out], skip not added.
/// `cache`: x follows the positions that it holds, and is appended to it; the table starts at x's
/// first position.
at::Tensor attention_forward(const ModelConfig& config, const SublayerWeights& weights,
                             const RotaryTable& rotary, const at::Tensor& x,
                             KeyValueCache* cache = nullptr);

}  // namespace dotresize
