#include "job/model/families/families.h"
#include "job/model/families/layer_settings.h"
#include "job/model/families/rotary_settings.h"

namespace dotresize {
namespace {

void read_qwen2(const ConfigFields& fields, ModelConfig& config) {
  fields.boolean("attention_bias", false);  // without effect: q, k and v always have biases
  refuse_biases(fields, {"mlp_bias"}, config);
  set_attention_biases(/*bias=*/true, /*output_bias=*/false, config);
  read_window_by_layer(fields, config);
  read_rotary(fields, {}, config);
}

}  // namespace

constinit const ModelFamily kQwen2{.model_type = "qwen2",
                                   .architecture = "Qwen2ForCausalLM",
                                   .absent = {.kv_heads = 32, .max_position_embeddings = 32768},
                                   .read = read_qwen2};

}  // namespace dotresize
