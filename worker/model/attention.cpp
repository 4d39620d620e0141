#include "worker/model/attention.h"

#include <optional>

namespace dotresize {
namespace {

// [tokens, tokens] bool: query i sees key j where j <= i and i - j < window. Nothing where the
// window covers every token, so that the faster causal path is taken.
std::optional<at::Tensor> window_mask(const ModelConfig& config, const at::Tensor& x) {
  const int64_t tokens = x.size(1);
  if (!config.sliding_window || *config.sliding_window >= tokens) return std::nullopt;
  at::Tensor mask = at::ones({tokens, tokens}, x.options().dtype(at::kBool));
  return mask.tril_().triu_(1 - *config.sliding_window);
}

}  // namespace

at::Tensor attention_forward(const ModelConfig& config, const SublayerWeights& weights,
                             const RotaryTable& rotary, const at::Tensor& x) {
  const int64_t batch = x.size(0);
  const int64_t tokens = x.size(1);
  const auto heads = [&](const Linear& reader, int64_t count) {
    return at::linear(x, reader.weight, reader.bias)
        .view({batch, tokens, count, config.head_dim})
        .transpose(1, 2);
  };
  const at::Tensor query = apply_rotary(heads(weights.readers[0], config.num_heads), rotary);
  const at::Tensor key = apply_rotary(heads(weights.readers[1], config.num_kv_heads), rotary);
  const at::Tensor value = heads(weights.readers[2], config.num_kv_heads);

  const std::optional<at::Tensor> mask = window_mask(config, x);
  const at::Tensor attended = at::scaled_dot_product_attention(
      query, key, value, mask, /*dropout_p=*/0.0, /*is_causal=*/!mask, /*scale=*/std::nullopt,
      /*enable_gqa=*/config.num_kv_heads != config.num_heads);
  return at::linear(attended.transpose(1, 2).reshape({batch, tokens, -1}), weights.writer.weight,
                    weights.writer.bias);
}

}  // namespace dotresize
