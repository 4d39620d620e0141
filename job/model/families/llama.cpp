#include <algorithm>

#include "job/model/families/families.h"
#include "job/model/families/layer_settings.h"
#include "job/model/families/rotary_settings.h"

namespace dotresize {
namespace {

void read_llama(const ConfigFields& fields, ModelConfig& config) {
  read_attention_biases(fields, /*if_absent=*/false, config);
  read_mlp_biases(fields, config);
  read_rotary(fields, {}, config);
}

bool has_biases(const ModelConfig& config) {
  return std::ranges::any_of(config.layers, [](const LayerSpec& layer) {
    return layer.attention.bias || layer.attention.output_bias || layer.mlp.bias;
  });
}

std::string reason_against_mistral(const ModelConfig& config) {
  return has_biases(config) ? "has no biases, and this llama has some" : "";
}

/// Some loaders assume that the heads of a llama are hidden_size / num_attention_heads wide, but
/// read head_dim of a mistral.
bool is_read_better_as_mistral(const ModelConfig& config, int64_t width) {
  // With a larger vocabulary transformers takes a mistral's tokenizer for one that needs a repair.
  constexpr int64_t kVocabularyWithoutWarning = 100'000;
  // Such a loader reads only these embeddings of a mistral in the same way as of a llama.
  const std::string& rotary = config.rotaries.front().type;
  const AttentionSpec& attention = config.layers.front().attention;
  return !has_biases(config) && (rotary == "default" || rotary == "linear") &&
         config.vocab_size <= kVocabularyWithoutWarning &&
         attention.num_heads * attention.head_dim != width;
}

constexpr double kLargestFactor = 1e6;

double granite_factor(const ConfigFields& fields, const char* key) {
  fields.refuse_null(key);
  return fields.positive(key, kLargestFactor).value_or(1.0);
}

void read_granite(const ConfigFields& fields, ModelConfig& config) {
  read_attention_biases(fields, /*if_absent=*/false, config);
  read_mlp_biases(fields, config);
  config.embedding_scale = granite_factor(fields, "embedding_multiplier");
  config.logit_scale = 1.0 / granite_factor(fields, "logits_scaling");
  for (LayerSpec& layer : config.layers) {
    layer.residual_scale = granite_factor(fields, "residual_multiplier");
    layer.attention.scale = granite_factor(fields, "attention_multiplier");
  }
  read_rotary(fields, {}, config);
}

void read_seed_oss(const ConfigFields& fields, ModelConfig& config) {
  set_attention_biases(fields.boolean("attention_bias", true),
                       fields.boolean("attention_out_bias", false), config);
  read_mlp_biases(fields, config);
  read_rotary(fields, {}, config);
}

}  // namespace

constinit const ModelFamily kLlama{.model_type = "llama",
                                   .architecture = "LlamaForCausalLM",
                                   .absent = {.max_position_embeddings = 2048},
                                   .absent_in_wrapper = AbsentSizes{.hidden_size = 4096,
                                                                    .num_layers = 32,
                                                                    .num_heads = 32,
                                                                    .intermediate_size = 11008,
                                                                    .vocab_size = 32000},
                                   .read = read_llama,
                                   .heads_divide_hidden_size = true,
                                   .exports_layer_sizes = true,
                                   .twin = TwinFamily{.model_type = "mistral",
                                                      .refuses = reason_against_mistral,
                                                      .is_read_better = is_read_better_as_mistral}};

constinit const ModelFamily kGranite{.model_type = "granite",
                                     .architecture = "GraniteForCausalLM",
                                     .absent = {.max_position_embeddings = 2048},
                                     .read = read_granite,
                                     .tokenizer = kFileAsItStands};

constinit const ModelFamily kSeedOss{
    .model_type = "seed_oss",
    .architecture = "SeedOssForCausalLM",
    .absent = {.kv_heads = 8, .head_dim = 128, .max_position_embeddings = 524288},
    .read = read_seed_oss};

}  // namespace dotresize
