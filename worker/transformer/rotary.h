#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "job/model/model_config.h"

namespace dotresize {

/// cos and sin of the rotary position embedding for positions 0 .. tokens-1, multiplied by the
/// attention factor if the embedding has one.
struct RotaryTable {
  at::Tensor cos;  ///< [tokens, rotary_dim] float32
  at::Tensor sin;
  at::Tensor query_scale = {};  ///< [tokens, 1] float32; undefined: 1
  bool interleaved = false;     ///< RotaryConfig::interleaved
};

/// Positions of a window, which the layers of a model compute with besides weights and activations.
struct LayerContext {
  std::vector<RotaryTable> rotaries;  ///< one for each of ModelConfig::rotaries
};

/// Returns the context on `device` for windows of exactly `tokens` tokens: frequencies of dynamic
/// and longrope embeddings depend on the length of the window.
LayerContext make_layer_context(const ModelConfig& config, int64_t tokens,
                                at::Device device = at::kCPU);
/// Returns the context of the positions [first, first + tokens). `context`: of more positions.
LayerContext positions_of(const LayerContext& context, int64_t first, int64_t tokens);

/// Rotates query or key heads: channel i is paired with channel i + rotary_dim/2, or in a table of
/// interleaved pairs channel 2i with 2i + 1; channels from rotary_dim on are unchanged. x: [batch,
/// heads, tokens, head_dim] of any floating dtype, computed in float32. The table may hold more
/// positions.
at::Tensor apply_rotary(const at::Tensor& x, const RotaryTable& table);

/// Multiplies queries [batch, heads, tokens, head_dim] by RotaryTable::query_scale.
at::Tensor scale_queries(const at::Tensor& query, const RotaryTable& table);

}  // namespace dotresize
