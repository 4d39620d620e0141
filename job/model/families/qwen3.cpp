#include <nlohmann/json.hpp>

#include "job/model/families/families.h"
#include "job/model/families/layer_settings.h"
#include "job/model/families/rotary_settings.h"

namespace dotresize {
namespace {

void read_qwen3_attentions(const ConfigFields& fields, ModelConfig& config) {
  read_attention_biases(fields, /*if_absent=*/false, config);
  refuse_biases(fields, {"mlp_bias"}, config);
  for (LayerSpec& layer : config.layers) layer.attention.head_norms = HeadNorms();
}

void read_qwen3(const ConfigFields& fields, ModelConfig& config) {
  read_qwen3_attentions(fields, config);
  read_window_by_layer(fields, config);
  read_rotary(fields, {}, config);
}

constexpr MixtureKeys kQwen3MoeKeys{.experts = "num_experts",
                                    .intermediate_size = "moe_intermediate_size"};

void read_qwen3_moe(const ConfigFields& fields, ModelConfig& config) {
  read_qwen3_attentions(fields, config);
  // Published, and of no effect.
  fields.note({"qkv_bias", "use_qk_norm", "shared_expert_intermediate_size"});
  // Every published config has them, whether or not a window is used.
  fields.note({"sliding_window", "max_window_layers", "layer_types"});
  constexpr int64_t kWindowIfAbsent = 4096;
  if (fields.boolean("use_sliding_window", false)) read_window(fields, kWindowIfAbsent, config);
  read_rotary(fields, {}, config);
  const MixtureSpec form{.normed_weights = fields.boolean("norm_topk_prob", false),
                         .names = {"mlp", "gate_proj", "up_proj", "down_proj"}};
  read_mixtures(fields, kQwen3MoeKeys, form, mixtures_by_step(fields, config), config);
}

void write_qwen3_moe(nlohmann::json& config, const ModelConfig& output) {
  write_mixtures(kQwen3MoeKeys, config, output);
}

}  // namespace

constinit const ModelFamily kQwen3{
    .model_type = "qwen3",
    .architecture = "Qwen3ForCausalLM",
    .absent = {.kv_heads = 32, .head_dim = 128, .max_position_embeddings = 32768},
    .read = read_qwen3,
    .tokenizer = {.class_name = "Qwen2Tokenizer"}};

constinit const ModelFamily kQwen3Moe{.model_type = "qwen3_moe",
                                      .architecture = "Qwen3MoeForCausalLM",
                                      .absent = {.kv_heads = 4, .max_position_embeddings = 32768},
                                      .read = read_qwen3_moe,
                                      .write = write_qwen3_moe,
                                      .tokenizer = {.class_name = "Qwen2Tokenizer"}};

}  // namespace dotresize
