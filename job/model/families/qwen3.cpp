#include "job/model/families/families.h"
#include "job/model/families/layer_settings.h"
#include "job/model/families/rotary_settings.h"

namespace dotresize {
namespace {

void read_qwen3(const ConfigFields& fields, ModelConfig& config) {
  const bool bias = fields.boolean("attention_bias", false);
  refuse_biases(fields, {"mlp_bias"}, config);
  set_attention_biases(bias, bias, config);
  for (LayerSpec& layer : config.layers) layer.attention.head_norms = HeadNorms();
  read_window_by_layer(fields, config);
  read_rotary(fields, {}, config);
}

}  // namespace

constinit const ModelFamily kQwen3{
    .model_type = "qwen3",
    .architecture = "Qwen3ForCausalLM",
    .absent = {.kv_heads = 32, .head_dim = 128, .max_position_embeddings = 32768},
    .read = read_qwen3};

}  // namespace dotresize
