#include <nlohmann/json.hpp>

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

/// Refuses windows: transformers 4 puts them on all layers, transformers 5 on every second one.
void refuse_windows(const ConfigFields& fields, const ModelConfig& config) {
  fields.note({"sliding_window", "max_window_layers", "layer_types"});
  if (fields.boolean("use_sliding_window", false)) {
    fields.fail("use_sliding_window", "true is refused; only false is supported");
  }
  if (fields.has("layer_types")) listed_windows(fields, /*used=*/false, config);
}

void read_qwen2_moe(const ConfigFields& fields, ModelConfig& config) {
  fields.boolean("attention_bias", false);  // without effect
  refuse_biases(fields, {"mlp_bias"}, config);
  fields.refuse_null("qkv_bias");
  set_attention_biases(fields.boolean("qkv_bias", true), /*output_bias=*/false, config);
  refuse_windows(fields, config);
  read_rotary(fields, {}, config);
  const MixtureSpec form{.normed_weights = fields.boolean("norm_topk_prob", false),
                         .names = kQwen2MoeNames};
  read_mixtures(fields, kQwen2MoeKeys, form, mixtures_by_step(fields, config), config);
}

void write_qwen2_moe(nlohmann::json& config, const ModelConfig& output) {
  write_mixtures(kQwen2MoeKeys, config, output);
}

}  // namespace

constinit const ModelFamily kQwen2{
    .model_type = "qwen2",
    .architecture = "Qwen2ForCausalLM",
    .absent = {.kv_heads = 32, .max_position_embeddings = 32768},
    .read = read_qwen2,
    .tokenizer = {.class_name = "Qwen2Tokenizer", .ignores_named = true}};

constinit const ModelFamily kQwen2Moe{.model_type = "qwen2_moe",
                                      .architecture = "Qwen2MoeForCausalLM",
                                      .absent = {.kv_heads = 16, .max_position_embeddings = 32768},
                                      .read = read_qwen2_moe,
                                      .write = write_qwen2_moe,
                                      .tokenizer = {.class_name = "Qwen2Tokenizer"}};

}  // namespace dotresize
