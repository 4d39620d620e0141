#include "job/model/families/families.h"
#include "job/model/families/layer_settings.h"
#include "job/model/families/rotary_settings.h"

namespace dotresize {
namespace {

void read_hunyuan_v1_dense(const ConfigFields& fields, ModelConfig& config) {
  refuse_biases(fields, {"mlp_bias"}, config);
  const bool bias = fields.boolean("attention_bias", false);
  set_attention_biases(bias, bias, config);
  for (LayerSpec& layer : config.layers) {
    layer.attention.head_norms =
        HeadNorms{.behind_rotary = true, .query = "query_layernorm", .key = "key_layernorm"};
  }
  read_rotary(fields, {.offers_alpha = true}, config);
}

}  // namespace

constinit const ModelFamily kHunyuanV1Dense{
    .model_type = "hunyuan_v1_dense",
    .architecture = "HunYuanDenseV1ForCausalLM",
    .absent = {.max_position_embeddings = 2048, .rms_norm_eps = 1e-5},
    .read = read_hunyuan_v1_dense};

}  // namespace dotresize
