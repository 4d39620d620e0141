#include "worker/evaluation/whole_model.h"

#include <ATen/ATen.h>

#include "job/model/model_config.h"
#include "worker/transformer/forward.h"
#include "worker/transformer/linear.h"
#include "worker/transformer/load.h"

namespace dotresize {

WholeModel load_whole_model(const CheckpointReader& reader, const ModelConfig& config,
                            at::ScalarType dtype) {
  WholeModel model;
  model.config = config;
  model.embedding = load_embedding(reader, config, dtype);
  for (int64_t sublayer = 0; sublayer < config.num_sublayers(); ++sublayer) {
    model.sublayers.push_back(load_sublayer(reader, config, sublayer, dtype));
  }
  model.head = load_head(reader, config, dtype);
  return model;
}

at::Tensor embed(const EmbeddingWeights& embedding, const at::Tensor& ids) {
  return scaled_embedding(at::embedding(embedding.weight, ids).to(at::kFloat), embedding.projection,
                          embedding.scale);
}

at::Tensor last_stream(const WholeModel& model, const at::Tensor& ids) {
  const LayerContext context = make_layer_context(model.config, ids.size(1));
  at::Tensor x = embed(model.embedding, ids);
  for (const SublayerWeights& sublayer : model.sublayers) {
    x = sublayer_forward(model.config, sublayer, context, x);
  }
  return x;
}

at::Tensor logits(const WholeModel& model, const at::Tensor& ids) {
  return head_forward(model.config, model.head, last_stream(model, ids));
}

Decoder::Decoder(const WholeModel& model, int64_t batch, int64_t capacity)
    : model_(model), context_(make_layer_context(model.config, capacity)) {
  const at::ScalarType dtype = model.embedding.weight.scalar_type();
  for (int64_t layer = 0; layer < model.config.num_layers(); ++layer) {
    caches_.emplace_back(model.config.attention(2 * layer), batch, capacity, dtype);
  }
}

at::Tensor Decoder::read(const at::Tensor& ids) {
  const LayerContext context = positions_of(context_, caches_.front().length(), ids.size(1));
  at::Tensor x = embed(model_.embedding, ids);
  for (const SublayerWeights& weights : model_.sublayers) {
    KeyValueCache& cache = caches_.at(static_cast<size_t>(layer_of(weights.sublayer)));
    x = sublayer_forward(model_.config, weights, context, x,
                         is_attention(weights.sublayer) ? &cache : nullptr);
  }
  return head_forward(model_.config, model_.head, x.select(1, -1));
}

}  // namespace dotresize
