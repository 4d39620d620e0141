#include <nlohmann/json.hpp>

#include "job/model/families/families.h"
#include "job/model/families/layer_settings.h"
#include "job/model/families/rotary_settings.h"

namespace dotresize {
namespace {

constexpr int64_t kMostHeads = 4096;
constexpr int64_t kMostTaps = 64;
constexpr const char* kFurtherLayers = "mtp_num_hidden_layers";

DeltaNetSpec read_delta_net(const ConfigFields& fields) {
  const auto number = [&](const char* key, int64_t most, int64_t if_absent) {
    fields.refuse_null(key);
    return fields.integer(key, 1, most).value_or(if_absent);
  };
  const DeltaNetSpec net{.key_heads = number("linear_num_key_heads", kMostHeads, 16),
                         .value_heads = number("linear_num_value_heads", kMostHeads, 32),
                         .key_dim = number("linear_key_head_dim", kMostHeads, 128),
                         .value_dim = number("linear_value_head_dim", kMostHeads, 128),
                         .taps = number("linear_conv_kernel_dim", kMostTaps, 4)};
  if (net.value_heads % net.key_heads != 0) {
    fields.fail("linear_num_key_heads", std::to_string(net.key_heads) +
                                            " does not divide linear_num_value_heads, " +
                                            std::to_string(net.value_heads));
  }
  // Qwen3.6 and later have it. Engines compute what it says; transformers knows silu alone.
  const std::string gate = fields.text("output_gate_type").value_or("swish");
  if (gate != "swish" && gate != "silu") {
    fields.fail("output_gate_type", "'" + gate + "' is refused; only 'swish' is supported");
  }
  if (net.taps < 2) fields.fail("linear_conv_kernel_dim", "1 is refused; at least 2 are needed");
  return net;
}

void read_qwen3_5_text(const ConfigFields& fields, ModelConfig& config) {
  // Published, and of no effect.
  fields.note({"attn_output_gate", "mamba_ssm_dtype", "mlp_only_layers", kFurtherLayers,
               "mtp_use_dedicated_embeddings"});
  config.files.further_layers = {"mtp."};
  // These tell positions of images apart, and outputs keep them.
  if (const auto rotary = fields.object("rope_parameters")) {
    rotary->note({"mrope_section", "mrope_interleaved"});
  }
  refuse_biases(fields, {"mlp_bias"}, config);
  read_attention_biases(fields, /*if_absent=*/false, config);
  const DeltaNetSpec net = read_delta_net(fields);
  const int64_t interval = fields.integer("full_attention_interval", 1, kMaxLayers).value_or(4);
  const std::vector<bool> linear = layers_of_type(fields, "linear_attention", interval, config);
  for (std::size_t layer = 0; layer < linear.size(); ++layer) {
    AttentionSpec& attention = config.layers[layer].attention;
    if (linear[layer]) {
      attention.delta_net = net;
      attention.bias = attention.output_bias = false;
      attention.rotary.reset();
    } else {
      attention.gated = true;
      attention.head_norms = HeadNorms();
    }
  }
  config.norm_offset = 1.0;
  read_rotary(fields, {.offers_partial = true, .partial_if_absent = 0.25}, config);
}

void read_qwen3_5_moe_text(const ConfigFields& fields, ModelConfig& config) {
  fields.note({"norm_topk_prob", "decoder_sparse_step", "intermediate_size"});  // without effect
  read_qwen3_5_text(fields, config);
  const std::vector<bool> all(config.layers.size(), true);
  read_mixtures(fields, kQwen2MoeKeys, {.normed_weights = true, .names = kQwen2MoeNames}, all,
                config);
}

void write_qwen3_5_text(nlohmann::json& config, const ModelConfig&) {
  if (config.contains(kFurtherLayers)) config[kFurtherLayers] = 0;  // an output has none of them
}

void write_qwen3_5_moe_text(nlohmann::json& config, const ModelConfig& output) {
  write_mixtures(kQwen2MoeKeys, config, output);
  write_qwen3_5_text(config, output);
}

}  // namespace

constinit const ModelFamily kQwen3_5MoeText{
    .model_type = "qwen3_5_moe_text",
    .architecture = "Qwen3_5MoeForCausalLM",
    .absent = {.intermediate_size = 1,  // no layer has another MLP than a mixture
               .kv_heads = 2,
               .head_dim = 256,
               .max_position_embeddings = 32768},
    .read = read_qwen3_5_moe_text,
    .write = write_qwen3_5_moe_text,
    .stem = "Qwen3_5MoeText",
    .tokenizer = {.class_name = "Qwen3_5Tokenizer", .ignores_named = true}};

constinit const ModelFamily kQwen3_5Text{
    .model_type = "qwen3_5_text",
    .architecture = "Qwen3_5ForCausalLM",
    .absent = {.kv_heads = 4, .head_dim = 256, .max_position_embeddings = 32768},
    .read = read_qwen3_5_text,
    .write = write_qwen3_5_text,
    .stem = "Qwen3_5Text",
    .tokenizer = {.class_name = "Qwen3_5Tokenizer"}};

}  // namespace dotresize
