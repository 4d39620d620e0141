#include "worker/transformer/attention.h"

#include <ATen/ATen.h>

#include <cmath>
#include <optional>

#include "worker/transformer/linear.h"

namespace dotresize {
namespace {

// Returns the mask [tokens, keys], bool: the query at position i = past .. past + tokens - 1 sees
// key j if j <= i and i - j < window. Returns nullopt if the window covers every key and either a
// single query sees all keys or, with past = 0, the faster causal path has the same result.
std::optional<at::Tensor> visible_keys(const AttentionSpec& attention, const at::Tensor& x,
                                       int64_t past) {
  const int64_t tokens = x.size(1);
  const int64_t keys = past + tokens;
  const std::optional<int64_t>& window = attention.sliding_window;
  const bool limited = window && *window < keys;
  const bool causal = past == 0 && !attention.holds_scores();
  if (!limited && (causal || tokens == 1)) return std::nullopt;
  at::Tensor mask = at::ones({tokens, keys}, x.options().dtype(at::kBool)).tril_(past);
  if (limited) mask.triu_(past + 1 - *window);
  return mask;
}

/// Returns softmax(scores) · value [batch, heads, tokens, dim], with scores = scale · query · keyᵀ,
/// or c · tanh(scores / c) with a limit c. A head's sink is one more score, that of a value of
/// zeros. The three have as many heads. `mask`: visible_keys(), absent if every key is seen.
at::Tensor attention_by_scores(const at::Tensor& query, const at::Tensor& key,
                               const at::Tensor& value, const std::optional<at::Tensor>& mask,
                               const at::Tensor& sinks, const AttentionSpec& attention) {
  const double dim = static_cast<double>(attention.head_dim);
  at::Tensor scores = at::matmul(query.to(at::kFloat), key.to(at::kFloat).transpose(2, 3));
  scores = capped(scores * attention.scale.value_or(1.0 / std::sqrt(dim)), attention.score_cap);
  if (mask) scores = scores.masked_fill(mask->logical_not(), -INFINITY);
  const int64_t keys = scores.size(3);
  if (sinks.defined()) {
    const at::Tensor of_heads = sinks.to(at::kFloat).view({1, -1, 1, 1});
    scores = at::cat({scores, of_heads.expand({scores.size(0), -1, scores.size(2), 1})}, -1);
  }
  scores = at::softmax(scores, -1).narrow(-1, 0, keys);
  return at::matmul(scores.to(value.scalar_type()), value);
}

}  // namespace

KeyValueCache::KeyValueCache(const AttentionSpec& attention, int64_t batch, int64_t capacity,
                             at::ScalarType dtype)
    : keys_(at::empty(
          {batch, attention.num_kv_heads, attention.delta_net ? 0 : capacity, attention.head_dim},
          dtype)),
      values_(at::empty_like(keys_)) {}

void KeyValueCache::append(at::Tensor& key, at::Tensor& value) {
  const int64_t tokens = key.size(2);
  keys_.narrow(2, length_, tokens).copy_(key);
  values_.narrow(2, length_, tokens).copy_(value);
  length_ += tokens;
  key = keys_.narrow(2, 0, length_);
  value = values_.narrow(2, 0, length_);
}

namespace {

/// Inputs of an attention, each [batch, heads, tokens, channels] in the weights' dtype.
struct Heads {
  at::Tensor query;
  at::Tensor key;
  at::Tensor value;
  at::Tensor gate = {};  ///< [batch, tokens, heads · channels], undefined without gates
};

Heads heads_of(const ModelConfig& config, const SublayerWeights& weights,
               const LayerContext& context, const at::Tensor& x) {
  const AttentionSpec& attention = config.attention(weights.sublayer);
  const int64_t batch = x.size(0);
  const int64_t tokens = x.size(1);
  const int64_t head_dim = attention.head_dim;
  const int64_t queries = attention.num_heads * head_dim;
  std::vector<at::Tensor> parts =
      apply_in_proj(weights.in_proj, x,
                    {attention.gated ? 2 * queries : queries, attention.num_kv_heads * head_dim,
                     attention.num_kv_heads * attention.value_head_dim});
  at::Tensor gate;
  if (attention.gated) {  // a head's query, then its gate
    const at::Tensor both = parts[0].view({batch, tokens, attention.num_heads, 2 * head_dim});
    gate = both.narrow(3, head_dim, head_dim).flatten(2);
    parts[0] = both.narrow(3, 0, head_dim).flatten(2);
  }
  const at::ScalarType dtype = weights.out_proj.at(0).weight.scalar_type();
  const HeadNorms norms = attention.head_norms.value_or(HeadNorms());
  const auto normed = [&](const at::Tensor& heads, size_t part) {
    if (weights.head_norms.empty()) return heads;
    return rms_norm(heads.to(at::kFloat), weights.head_norms.at(part), config, heads.size(-1))
        .to(heads.scalar_type());
  };
  const auto turned = [&](size_t part) {  // queries (part 0) or keys (1)
    at::Tensor result = parts[part];
    if (norms.over_all_heads) result = normed(result, part);
    result = result.view({batch, tokens, -1, head_dim}).transpose(1, 2);
    if (!norms.over_all_heads && !norms.behind_rotary) result = normed(result, part);
    if (attention.rotary) result = apply_rotary(result, context.rotaries.at(*attention.rotary));
    return (norms.behind_rotary ? normed(result, part) : result).to(dtype);
  };
  at::Tensor query = turned(0);
  if (attention.rotary) query = scale_queries(query, context.rotaries.at(*attention.rotary));
  const at::Tensor value =
      parts[2].view({batch, tokens, -1, attention.value_head_dim}).transpose(1, 2).to(dtype);
  return {query, turned(1), value, gate};
}

}  // namespace

at::Tensor attention_forward(const ModelConfig& config, const SublayerWeights& weights,
                             const LayerContext& context, const at::Tensor& x, KeyValueCache* cache,
                             const FeatureVisitor& visit) {
  const AttentionSpec& attention = config.attention(weights.sublayer);
  auto [query, key, value, gate] = heads_of(config, weights, context, x);
  // The fast kernels need values of the keys' width. Padded zeros come out as zeros.
  const int64_t missing = attention.head_dim - attention.value_head_dim;
  if (missing > 0) value = at::constant_pad_nd(value, {0, missing});
  const int64_t past = cache == nullptr ? 0 : cache->length();
  if (cache != nullptr) cache->append(key, value);

  // Key and value heads are repeated on a GPU and for gradients. Only some attention kernels
  // support shared heads there; on older GPUs only the slowest one does.
  const int64_t sharing = attention.num_heads / attention.num_kv_heads;
  const bool repeat =
      (x.is_cuda() || query.requires_grad() || attention.holds_scores()) && sharing > 1;
  if (repeat) {
    key = key.repeat_interleave(sharing, 1);
    value = value.repeat_interleave(sharing, 1);
  }
  const std::optional<at::Tensor> mask = visible_keys(attention, x, past);
  at::Tensor attended =
      attention.holds_scores()
          ? attention_by_scores(query, key, value, mask, weights.sinks, attention)
          : at::scaled_dot_product_attention(query, key, value, mask, /*dropout_p=*/0.0,
                                             /*is_causal=*/!mask && past == 0, attention.scale,
                                             /*enable_gqa=*/sharing > 1 && !repeat);
  if (missing > 0) attended = attended.narrow(3, 0, attention.value_head_dim);
  at::Tensor read = attended.transpose(1, 2).reshape({x.size(0), x.size(1), -1});
  if (gate.defined()) read = read * at::sigmoid(gate).to(read.scalar_type());
  if (visit) visit(0, read);
  return apply_linear(weights.out_proj.at(0), read);
}

}  // namespace dotresize
