#include "worker/transformer/key_value_cache.h"

#include <ATen/ATen.h>

namespace dotresize {

KeyValueCache::KeyValueCache(const ModelConfig& config, int64_t batch, int64_t capacity,
                             at::ScalarType dtype)
    : keys_(at::empty({batch, config.num_kv_heads, capacity, config.head_dim}, dtype)),
      values_(at::empty_like(keys_)) {}

void KeyValueCache::append(const at::Tensor& key, const at::Tensor& value) {
  const int64_t tokens = key.size(2);
  keys_.narrow(2, length_, tokens).copy_(key);
  values_.narrow(2, length_, tokens).copy_(value);
  length_ += tokens;
}

}  // namespace dotresize
