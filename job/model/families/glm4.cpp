#include "job/model/families/families.h"
#include "job/model/families/layer_settings.h"
#include "job/model/families/rotary_settings.h"

namespace dotresize {
namespace {

constexpr NormNames kGlm4Norms{.before_attention = "input_layernorm",
                               .behind_attention = "post_self_attn_layernorm",
                               .before_mlp = "post_attention_layernorm",
                               .behind_mlp = "post_mlp_layernorm"};

void read_glm4(const ConfigFields& fields, ModelConfig& config) {
  refuse_biases(fields, {"mlp_bias"}, config);
  set_attention_biases(fields.boolean("attention_bias", true), /*output_bias=*/false, config);
  for (LayerSpec& layer : config.layers) {
    layer.norms = kGlm4Norms;
    layer.mlp.fused = true;
  }
  read_rotary(fields, {.offers_partial = true, .partial_if_absent = 0.5, .interleaved = true},
              config);
}

}  // namespace

constinit const ModelFamily kGlm4{.model_type = "glm4",
                                  .architecture = "Glm4ForCausalLM",
                                  .absent = {.kv_heads = 2,
                                             .head_dim = 128,
                                             .max_position_embeddings = 131072,
                                             .rms_norm_eps = 1.5625e-7},
                                  .read = read_glm4};

}  // namespace dotresize
