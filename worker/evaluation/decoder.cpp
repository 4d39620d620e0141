#include "worker/evaluation/decoder.h"

#include <ATen/ATen.h>

#include "job/model/model_config.h"
#include "worker/transformer/forward.h"

namespace dotresize {

Decoder::Decoder(const WholeModel& model, int64_t batch, int64_t capacity)
    : model_(model), rotary_(make_rotary_table(model.config, capacity)) {
  const at::ScalarType dtype = model.embedding.scalar_type();
  for (int64_t layer = 0; layer < model.config.num_layers; ++layer) {
    caches_.emplace_back(model.config, batch, capacity, dtype);
  }
}

at::Tensor Decoder::read(const at::Tensor& ids) {
  const RotaryTable rotary = rotary_rows(rotary_, caches_.front().length(), ids.size(1));
  at::Tensor x = at::embedding(model_.embedding, ids).to(at::kFloat);
  for (const SublayerWeights& weights : model_.sublayers) {
    KeyValueCache& cache = caches_.at(static_cast<size_t>(layer_of(weights.sublayer)));
    x = sublayer_forward(model_.config, weights, rotary, x,
                         is_attention(weights.sublayer) ? &cache : nullptr);
  }
  return head_forward(model_.config, model_.head, x.select(1, -1));
}

}  // namespace dotresize
