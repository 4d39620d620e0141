#include "job/model/families/families.h"
#include "job/model/families/layer_settings.h"
#include "job/model/families/rotary_settings.h"

namespace dotresize {
namespace {

void read_seed_oss(const ConfigFields& fields, ModelConfig& config) {
  set_attention_biases(fields.boolean("attention_bias", true),
                       fields.boolean("attention_out_bias", false), config);
  const bool mlp_bias = fields.boolean("mlp_bias", false);
  for (LayerSpec& layer : config.layers) layer.mlp.bias = mlp_bias;
  read_rotary(fields, {}, config);
}

}  // namespace

constinit const ModelFamily kSeedOss{
    .model_type = "seed_oss",
    .architecture = "SeedOssForCausalLM",
    .absent = {.kv_heads = 8, .head_dim = 128, .max_position_embeddings = 524288},
    .read = read_seed_oss};

}  // namespace dotresize
