#include "job/model/families/families.h"
#include "job/model/families/layer_settings.h"
#include "job/model/families/rotary_settings.h"

namespace dotresize {
namespace {

constexpr double kLargestFactor = 1e6;

double granite_factor(const ConfigFields& fields, const char* key) {
  fields.refuse_null(key);
  return fields.positive(key, kLargestFactor).value_or(1.0);
}

void read_granite(const ConfigFields& fields, ModelConfig& config) {
  const bool bias = fields.boolean("attention_bias", false);
  set_attention_biases(bias, bias, config);
  const bool mlp_bias = fields.boolean("mlp_bias", false);
  config.embedding_scale = granite_factor(fields, "embedding_multiplier");
  config.logit_scale = 1.0 / granite_factor(fields, "logits_scaling");
  for (LayerSpec& layer : config.layers) {
    layer.mlp.bias = mlp_bias;
    layer.residual_scale = granite_factor(fields, "residual_multiplier");
    layer.attention.scale = granite_factor(fields, "attention_multiplier");
  }
  read_rotary(fields, {}, config);
}

}  // namespace

constinit const ModelFamily kGranite{.model_type = "granite",
                                     .architecture = "GraniteForCausalLM",
                                     .absent = {.max_position_embeddings = 2048},
                                     .read = read_granite};

}  // namespace dotresize
