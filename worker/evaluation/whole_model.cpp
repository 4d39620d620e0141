#include "worker/evaluation/whole_model.h"

#include <ATen/ATen.h>

#include "worker/transformer/forward.h"
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

at::Tensor last_stream(const WholeModel& model, const at::Tensor& ids) {
  const RotaryTable rotary = make_rotary_table(model.config, ids.size(1));
  at::Tensor x = at::embedding(model.embedding, ids).to(at::kFloat);
  for (const SublayerWeights& sublayer : model.sublayers) {
    x = sublayer_forward(model.config, sublayer, rotary, x);
  }
  return x;
}

at::Tensor logits(const WholeModel& model, const at::Tensor& ids) {
  return head_forward(model.config, model.head, last_stream(model, ids));
}

}  // namespace dotresize
