#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "job/model/model_config.h"
#include "worker/transformer/mlp.h"
#include "worker/transformer/rotary.h"
#include "worker/transformer/weights.h"

namespace dotresize {

/// State of a DeltaNet behind the tokens that it has seen. Both are undefined before the first one.
struct DeltaNetState {
  at::Tensor inputs;  ///< last inputs of the convolution [batch, channels, taps - 1] float32
  at::Tensor memory;  ///< [batch, value heads, key_dim, value_dim] float32
};

/// Keys and values of the positions that one attention has seen, so that later tokens do not
/// recompute them. Keys are stored rotated, values padded to head_dim. A DeltaNet has a state in
/// their place.
class KeyValueCache {
 public:
  /// Allocates `capacity` positions of `batch` sequences. `dtype`: dtype of the weights.
  KeyValueCache(const AttentionSpec& attention, int64_t batch, int64_t capacity,
                at::ScalarType dtype);

  /// Number of positions in the cache.
  int64_t length() const { return length_; }
  /// key, value: [batch, kv_heads, tokens, head_dim] of the positions from length() on. Throws
  /// c10::Error if they exceed the capacity. Replaces them by views of all positions, [batch,
  /// kv_heads, length(), head_dim], valid until the next append().
  void append(at::Tensor& key, at::Tensor& value);
  /// Counts positions that are in delta_net.
  void advance(int64_t tokens) { length_ += tokens; }

  DeltaNetState delta_net;

 private:
  at::Tensor keys_;
  at::Tensor values_;
  int64_t length_ = 0;
};

/// Causal self-attention of normalised x [batch, tokens, k_in], in the weights' activation_dtype
/// (linear.h). The attention itself runs in the weights' dtype. Query head h attends to key
/// head h / (heads / kv_heads). Returns [batch, tokens, k_out], skip not added. `cache`: x follows
/// its positions and is appended; the context must start at x's first position. `visit`:
/// receives the input of o, [batch, tokens, columns of o], one head after the other.
at::Tensor attention_forward(const ModelConfig& config, const SublayerWeights& weights,
                             const LayerContext& context, const at::Tensor& x,
                             KeyValueCache* cache = nullptr, const FeatureVisitor& visit = nullptr);

/// DeltaNet (delta_net.cpp) of normalised x [batch, tokens, k_in], in the weights' activation_dtype
/// (linear.h). Causal. Everything between the projections is float32. Returns [batch, tokens,
/// k_out], skip not added. `state`: x follows its tokens, and is added to it; may be null. `visit`:
/// receives the input of out_proj, [batch, tokens, value heads · value_dim].
at::Tensor delta_net_forward(const ModelConfig& config, const SublayerWeights& weights,
                             const at::Tensor& x, DeltaNetState* state,
                             const FeatureVisitor& visit);

}  // namespace dotresize
