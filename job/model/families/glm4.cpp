#include <array>
#include <nlohmann/json.hpp>
#include <string>

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

constexpr MixtureKeys kGlm4MoeKeys{.experts = "n_routed_experts",
                                   .intermediate_size = "moe_intermediate_size"};
constexpr double kLargestScale = 1e6;
constexpr std::array kFurtherLayers = {"num_nextn_predict_layers", "num_mtp_layers"};

/// Sets the form of the router: groups of experts, of which a token's best few are open to it.
void read_groups(const ConfigFields& fields, ModelConfig& config) {
  const int64_t groups = fields.integer("n_group", 1, kMaxRows).value_or(1);
  const int64_t per_token = fields.integer("topk_group", 1, kMaxRows).value_or(1);
  if (per_token > groups) {
    fields.fail("topk_group",
                std::to_string(per_token) + " is above n_group, " + std::to_string(groups));
  }
  for (LayerSpec& layer : config.layers) {
    if (!layer.mlp.mixture) continue;
    MixtureSpec& mixture = *layer.mlp.mixture;
    // A group is as good as its two best experts together.
    if (mixture.experts % groups != 0 || mixture.experts / groups < 2) {
      fields.fail("n_group", std::to_string(groups) + " does not divide n_routed_experts, " +
                                 std::to_string(mixture.experts) + ", into groups of two or more");
    }
    const int64_t open = per_token * (mixture.experts / groups);
    if (mixture.experts_per_token > open) {
      fields.fail("num_experts_per_tok", std::to_string(mixture.experts_per_token) +
                                             " is above the experts of topk_group groups, " +
                                             std::to_string(open));
    }
    mixture.groups = groups;
    mixture.groups_per_token = per_token;
  }
}

void read_glm4_moe_mixtures(const ConfigFields& fields, ModelConfig& config) {
  for (const char* key : {"norm_topk_prob", "n_shared_experts", "n_group", "topk_group",
                          "routed_scaling_factor", "first_k_dense_replace"}) {
    fields.refuse_null(key);
  }
  constexpr int64_t kMaxShared = 64;
  const int64_t rows = fields.required_integer(kGlm4MoeKeys.intermediate_size, 1, kMaxRows);
  const int64_t shared = fields.integer("n_shared_experts", 1, kMaxShared).value_or(1);
  const MixtureSpec form{
      .normed_weights = fields.boolean("norm_topk_prob", true),
      .names = {"mlp", "gate_proj", "up_proj", "down_proj", "mlp.shared_experts"},
      .scores = RouterScores::kSigmoid,
      .choice_bias = true,
      .weight_scale = fields.positive("routed_scaling_factor", kLargestScale).value_or(1.0),
      .shared_size = shared * rows};
  const int64_t dense = fields.integer("first_k_dense_replace", 0, kMaxLayers).value_or(1);
  std::vector<bool> layers;
  for (int64_t layer = 0; layer < config.num_layers(); ++layer) layers.push_back(layer >= dense);
  read_mixtures(fields, kGlm4MoeKeys, form, layers, config);
  read_groups(fields, config);
}

void read_glm4_moe(const ConfigFields& fields, ModelConfig& config) {
  set_attention_biases(fields.boolean("attention_bias", false), /*output_bias=*/false, config);
  refuse_biases(fields, {"mlp_bias"}, config);
  // Layers behind the last one predict further tokens. transformers reads none of them.
  for (const char* key : kFurtherLayers) {
    const int64_t count = fields.integer(key, 0, kMaxLayers).value_or(0);
    while (std::ssize(config.files.further_layers) < count) {
      const int64_t layer = config.num_layers() + std::ssize(config.files.further_layers);
      config.files.further_layers.push_back("model.layers." + std::to_string(layer) + ".");
    }
  }
  fields.refuse_null("use_qk_norm");
  const bool norms = fields.boolean("use_qk_norm", false);
  for (LayerSpec& layer : config.layers) {
    if (norms) layer.attention.head_norms = HeadNorms();
  }
  read_rotary(fields, {.offers_partial = true, .partial_if_absent = 0.5}, config);
  read_glm4_moe_mixtures(fields, config);
}

void write_glm4_moe(nlohmann::json& config, const ModelConfig& output) {
  write_mixtures(kGlm4MoeKeys, config, output);
  for (const char* key : kFurtherLayers) {
    if (config.contains(key)) config[key] = 0;  // an output has none of these layers
  }
}

}  // namespace

constinit const ModelFamily kGlm4{.model_type = "glm4",
                                  .architecture = "Glm4ForCausalLM",
                                  .absent = {.kv_heads = 2,
                                             .head_dim = 128,
                                             .max_position_embeddings = 131072,
                                             .rms_norm_eps = 1.5625e-7},
                                  .read = read_glm4,
                                  .tokenizer = kFileAsItStands};

constinit const ModelFamily kGlm4Moe{
    .model_type = "glm4_moe",
    .architecture = "Glm4MoeForCausalLM",
    .absent = {.kv_heads = 8, .max_position_embeddings = 131072, .rms_norm_eps = 1e-5},
    .read = read_glm4_moe,
    .write = write_glm4_moe,
    .tokenizer = kFileAsItStands};

}  // namespace dotresize
