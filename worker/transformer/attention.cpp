#include "worker/transformer/attention.h"

#include <ATen/ATen.h>

#include <optional>

#include "worker/transformer/linear.h"

namespace dotresize {
namespace {

// Returns the mask [tokens, keys], bool: the query at position i = past .. past + tokens - 1 sees
// key j if j <= i and i - j < window. Returns nullopt if the window covers every key and either a
// single query sees all keys or, with past = 0, the faster causal path has the same result.
std::optional<at::Tensor> visible_keys(const std::optional<int64_t>& window, const at::Tensor& x,
                                       int64_t past) {
  const int64_t tokens = x.size(1);
  const int64_t keys = past + tokens;
  const bool limited = window && *window < keys;
  if (!limited && (past == 0 || tokens == 1)) return std::nullopt;
  at::Tensor mask = at::ones({tokens, keys}, x.options().dtype(at::kBool)).tril_(past);
  if (limited) mask.triu_(past + 1 - *window);
  return mask;
}

}  // namespace

KeyValueCache::KeyValueCache(const AttentionSpec& attention, int64_t batch, int64_t capacity,
                             at::ScalarType dtype)
    : keys_(at::empty({batch, attention.num_kv_heads, capacity, attention.head_dim}, dtype)),
      values_(at::empty_like(keys_)) {}

void KeyValueCache::append(at::Tensor& key, at::Tensor& value) {
  const int64_t tokens = key.size(2);
  keys_.narrow(2, length_, tokens).copy_(key);
  values_.narrow(2, length_, tokens).copy_(value);
  length_ += tokens;
  key = keys_.narrow(2, 0, length_);
  value = values_.narrow(2, 0, length_);
}

at::Tensor attention_forward(const ModelConfig& config, const SublayerWeights& weights,
                             const LayerContext& context, const at::Tensor& x, KeyValueCache* cache,
                             const FeatureVisitor& visit) {
  const AttentionSpec& attention = config.attention(weights.sublayer);
  const int64_t batch = x.size(0);
  const int64_t tokens = x.size(1);
  const int64_t head_dim = attention.head_dim;
  const int64_t value_dim = attention.value_head_dim;
  const std::vector<at::Tensor> parts =
      apply_in_proj(weights.in_proj, x,
                    {attention.num_heads * head_dim, attention.num_kv_heads * head_dim,
                     attention.num_kv_heads * value_dim});
  const auto heads = [&](size_t part, int64_t dim) {  // [batch, heads, tokens, dim]
    return parts[part].view({batch, tokens, -1, dim}).transpose(1, 2);
  };
  const at::ScalarType dtype = weights.out_proj.at(0).weight.scalar_type();
  const auto turned = [&](size_t part) {  // queries (part 0) or keys (1)
    at::Tensor normed = heads(part, head_dim);
    if (!weights.head_norms.empty()) {
      normed = rms_norm(normed.to(at::kFloat), weights.head_norms.at(part), config, head_dim)
                   .to(normed.scalar_type());
    }
    if (attention.rotary) normed = apply_rotary(normed, context.rotaries.at(*attention.rotary));
    return normed.to(dtype);
  };
  const at::Tensor query = turned(0);
  at::Tensor key = turned(1);
  // The fast kernels need values of the keys' width. Padded zeros come out as zeros.
  at::Tensor value = heads(2, value_dim).to(dtype);
  const bool narrow = value_dim < head_dim;
  if (narrow) value = at::constant_pad_nd(value, {0, head_dim - value_dim});
  const int64_t past = cache == nullptr ? 0 : cache->length();
  if (cache != nullptr) cache->append(key, value);

  // Key and value heads are repeated on a GPU and for gradients. Only some attention kernels
  // support shared heads there; on older GPUs only the slowest one does.
  const int64_t sharing = attention.num_heads / attention.num_kv_heads;
  const bool repeat = (x.is_cuda() || query.requires_grad()) && sharing > 1;
  const std::optional<at::Tensor> mask = visible_keys(attention.sliding_window, x, past);
  at::Tensor attended = at::scaled_dot_product_attention(
      query, repeat ? key.repeat_interleave(sharing, 1) : key,
      repeat ? value.repeat_interleave(sharing, 1) : value, mask, /*dropout_p=*/0.0,
      /*is_causal=*/!mask && past == 0, attention.scale,
      /*enable_gqa=*/sharing > 1 && !repeat);
  if (narrow) attended = attended.narrow(3, 0, value_dim);
  const at::Tensor read = attended.transpose(1, 2).reshape({batch, tokens, -1});
  if (visit) visit(0, read);
  return apply_linear(weights.out_proj.at(0), read);
}

}  // namespace dotresize
