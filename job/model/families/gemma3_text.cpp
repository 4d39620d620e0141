#include <cmath>
#include <nlohmann/json.hpp>

#include "job/model/families/families.h"
#include "job/model/families/layer_settings.h"
#include "job/model/families/rotary_settings.h"

namespace dotresize {
namespace {

constexpr double kLargestScalar = 1e9;

/// Without `layer_types` every sliding_window_pattern-th layer has no window.
std::vector<bool> sliding_layers_of_gemma3(const ConfigFields& fields, const ModelConfig& config) {
  fields.note({"_sliding_window_pattern"});
  const int64_t pattern = fields.integer("sliding_window_pattern", 1, kMaxLayers).value_or(6);
  if (fields.has("layer_types")) return sliding_layers(fields, config);
  std::vector<bool> sliding;
  for (int64_t layer = 0; layer < config.num_layers(); ++layer) {
    sliding.push_back((layer + 1) % pattern != 0);
  }
  return sliding;
}

void read_gemma3_text(const ConfigFields& fields, ModelConfig& config) {
  for (const char* key : {"final_logit_softcapping", "attn_logit_softcapping"}) {
    if (fields.has(key)) fields.fail(key, "is refused; only null is supported");
  }
  const bool bias = fields.boolean("attention_bias", false);
  set_attention_biases(bias, bias, config);
  const double scalar = fields.positive("query_pre_attn_scalar", kLargestScalar).value_or(256.0);
  const std::vector<bool> sliding = sliding_layers_of_gemma3(fields, config);
  read_window(fields, /*if_absent=*/4096, config);
  for (std::size_t layer = 0; layer < sliding.size(); ++layer) {
    LayerSpec& spec = config.layers[layer];
    spec.post_norms = true;
    spec.attention.head_norms = true;
    spec.attention.scale = 1.0 / std::sqrt(scalar);
    spec.attention.rotary = sliding[layer] ? 1 : 0;
    if (!sliding[layer]) spec.attention.sliding_window.reset();
  }
  config.norm_offset = 1.0;
  config.embedding_scale = std::sqrt(static_cast<double>(config.hidden_size));
  read_rotaries_by_layer_type(fields, {.theta_if_absent = 1e6}, config);
}

void write_gemma3_text(nlohmann::json& config, const ModelConfig& output) {
  config["rope_parameters"] = {{"full_attention", rotary_parameters(output.rotaries.at(0))},
                               {"sliding_attention", rotary_parameters(output.rotaries.at(1))}};
  config["rope_local_base_freq"] = output.rotaries.at(1).theta;
}

}  // namespace

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
                                        .stem = "Gemma3Text"};

}  // namespace dotresize
