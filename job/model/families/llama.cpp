#include "job/model/families/families.h"
#include "job/model/families/layer_settings.h"
#include "job/model/families/rotary_settings.h"

namespace dotresize {
namespace {

void read_llama(const ConfigFields& fields, ModelConfig& config) {
  const bool bias = fields.boolean("attention_bias", false);
  set_attention_biases(bias, bias, config);
  const bool mlp_bias = fields.boolean("mlp_bias", false);
  for (LayerSpec& layer : config.layers) layer.mlp.bias = mlp_bias;
  read_rotary(fields, {}, config);
}

}  // namespace

constinit const ModelFamily kLlama{.model_type = "llama",
                                   .architecture = "LlamaForCausalLM",
                                   .absent = {.max_position_embeddings = 2048},
                                   .read = read_llama,
                                   .heads_divide_hidden_size = true};

}  // namespace dotresize
