#include <cmath>
#include <nlohmann/json.hpp>

#include "job/model/families/families.h"
#include "job/model/families/layer_settings.h"
#include "job/model/families/rotary_settings.h"

namespace dotresize {
namespace {

constexpr double kLargestScalar = 1e9;
constexpr NormNames kNormsAroundSublayers{.before_attention = "input_layernorm",
                                          .behind_attention = "post_attention_layernorm",
                                          .before_mlp = "pre_feedforward_layernorm",
                                          .behind_mlp = "post_feedforward_layernorm"};

void read_biases_and_factors(const ConfigFields& fields, ModelConfig& config) {
  read_attention_biases(fields, /*if_absent=*/false, config);
  config.norm_offset = 1.0;
  config.embedding_scale = std::sqrt(static_cast<double>(config.hidden_size));
}

/// Sets what the layers of gemma2 and gemma3_text have in common.
void read_normed_layers(const ConfigFields& fields, const std::vector<bool>& sliding,
                        ModelConfig& config) {
  fields.note({"cache_implementation", "hidden_act"});  // published, and of no effect on results
  read_biases_and_factors(fields, config);
  fields.refuse_null("query_pre_attn_scalar");
  const double scalar = fields.positive("query_pre_attn_scalar", kLargestScalar).value_or(256.0);
  read_window(fields, /*if_absent=*/4096, sliding, config);
  for (LayerSpec& layer : config.layers) {
    layer.norms = kNormsAroundSublayers;
    layer.attention.scale = 1.0 / std::sqrt(scalar);
  }
}

void read_gemma(const ConfigFields& fields, ModelConfig& config) {
  fields.note({"hidden_activation"});
  read_biases_and_factors(fields, config);
  read_rotary(fields, {}, config);
}

/// transformers 4 takes the name gelu literally, transformers 5 and the releases do not.
void write_gemma(nlohmann::json& config, const ModelConfig&) {
  config["hidden_act"] = "gelu_pytorch_tanh";
}

/// Returns the cap of scores or logits. A null means none.
std::optional<double> cap_of(const ConfigFields& fields, const char* key, double if_absent) {
  return fields.contains(key) ? fields.positive(key, kLargestScalar) : if_absent;
}

void read_gemma2(const ConfigFields& fields, ModelConfig& config) {
  fields.note({"sliding_window_size"});  // published beside sliding_window
  read_normed_layers(fields, sliding_layers(fields, /*period=*/2, config), config);
  const std::optional<double> score_cap = cap_of(fields, "attn_logit_softcapping", 50.0);
  for (LayerSpec& layer : config.layers) layer.attention.score_cap = score_cap;
  config.logit_cap = cap_of(fields, "final_logit_softcapping", 30.0);
  read_rotary(fields, {}, config);
}

void read_gemma3_text(const ConfigFields& fields, ModelConfig& config) {
  for (const char* key : {"final_logit_softcapping", "attn_logit_softcapping"}) {
    if (fields.has(key)) fields.fail(key, "is refused; only null is supported");
  }
  fields.note({"_sliding_window_pattern"});
  const int64_t period = fields.integer("sliding_window_pattern", 1, kMaxLayers).value_or(6);
  const std::vector<bool> sliding = sliding_layers(fields, period, config);
  read_normed_layers(fields, sliding, config);
  for (std::size_t layer = 0; layer < sliding.size(); ++layer) {
    config.layers[layer].attention.head_norms = HeadNorms();
    config.layers[layer].attention.rotary = sliding[layer] ? 1 : 0;
  }
  read_rotaries_by_layer_type(fields, {.theta_if_absent = 1e6}, config);
}

void write_gemma3_text(nlohmann::json& config, const ModelConfig& output) {
  config["rope_parameters"] = parameters_by_layer_type(output);
  config["rope_local_base_freq"] = output.rotaries.at(1).theta;
}

}  // namespace

constinit const ModelFamily kGemma{.model_type = "gemma",
                                   .architecture = "GemmaForCausalLM",
                                   .absent = {.kv_heads = 16,
                                              .head_dim = 256,
                                              .max_position_embeddings = 8192,
                                              .tie_word_embeddings = true},
                                   .read = read_gemma,
                                   .write = write_gemma,
                                   .activation = Activation::kGeluTanh,
                                   .other_activation_name = "gelu",
                                   .tokenizer = {.class_name = "GemmaTokenizer"}};

constinit const ModelFamily kGemma2{.model_type = "gemma2",
                                    .architecture = "Gemma2ForCausalLM",
                                    .absent = {.kv_heads = 4,
                                               .head_dim = 256,
                                               .max_position_embeddings = 8192,
                                               .tie_word_embeddings = true},
                                    .read = read_gemma2,
                                    .activation_key = "hidden_activation",
                                    .activation = Activation::kGeluTanh,
                                    .heads_divide_hidden_size = true,
                                    .tokenizer = {.class_name = "GemmaTokenizer"}};

constinit const ModelFamily kGemma3Text{.model_type = "gemma3_text",
                                        .architecture = "Gemma3ForCausalLM",
                                        .absent = {.num_heads = 8,
                                                   .vocab_size = 262208,
                                                   .kv_heads = 4,
                                                   .head_dim = 256,
                                                   .max_position_embeddings = 131072,
                                                   .tie_word_embeddings = true},
                                        .read = read_gemma3_text,
                                        .write = write_gemma3_text,
                                        .activation_key = "hidden_activation",
                                        .activation = Activation::kGeluTanh,
                                        .heads_divide_hidden_size = true,
                                        .stem = "Gemma3Text",
                                        .tokenizer = {.class_name = "GemmaTokenizer"}};

}  // namespace dotresize
