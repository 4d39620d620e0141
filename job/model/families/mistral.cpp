#include <algorithm>
#include <nlohmann/json.hpp>

#include "job/model/families/families.h"
#include "job/model/families/layer_settings.h"
#include "job/model/families/rotary_settings.h"

namespace dotresize {
namespace {

void read_mistral_windows(const ConfigFields& fields, ModelConfig& config) {
  constexpr int64_t kWindowIfAbsent = 4096;
  if (!fields.has("layer_types")) return read_window(fields, kWindowIfAbsent, config);
  // transformers then makes the model one of another class (ministral).
  fields.note({"sliding_window"});
  const std::vector<bool> layers = sliding_layers(fields, config);
  const auto sliding = std::ranges::count(layers, true);
  if (sliding == 0) return;
  if (sliding < config.num_layers()) {
    fields.fail("layer_types",
                "a window on " + std::to_string(sliding) + " of " +
                    std::to_string(config.num_layers()) +
                    " layers is not supported; it must be on all of them or on none");
  }
  read_window(fields, kWindowIfAbsent, config);
}

void read_mistral(const ConfigFields& fields, ModelConfig& config) {
  refuse_biases(fields, {"attention_bias", "mlp_bias"}, config);
  read_mistral_windows(fields, config);
  read_rotary(fields, {}, config);
}

void write_mistral(nlohmann::json& config, const ModelConfig& output) {
  for (const char* key : {"layer_types", "use_sliding_window", "max_window_layers"}) {
    config.erase(key);
  }
  const auto& window = output.layers.front().attention.sliding_window;
  config["sliding_window"] = window ? nlohmann::json(*window) : nlohmann::json();
}

void read_ministral3(const ConfigFields& fields, ModelConfig& config) {
  refuse_biases(fields, {"attention_bias", "mlp_bias"}, config);
  read_window(fields, /*if_absent=*/std::nullopt, config);
  if (!fields.has("rope_parameters")) fields.fail("rope_parameters", "is missing");
  read_rotary(fields, {.scales_queries = true}, config);
}

constexpr MixtureKeys kMixtralKeys{.experts = "num_local_experts",
                                   .intermediate_size = "intermediate_size"};

void read_mixtral(const ConfigFields& fields, ModelConfig& config) {
  refuse_biases(fields, {"attention_bias", "mlp_bias"}, config);
  read_window(fields, /*if_absent=*/std::nullopt, config);
  read_rotary(fields, {.theta_if_absent = 1e6}, config);
  const std::vector<bool> all(config.layers.size(), true);
  read_mixtures(fields, kMixtralKeys,
                {.normed_weights = true, .names = {"block_sparse_moe", "w1", "w3", "w2"}}, all,
                config);
}

void write_mixtral(nlohmann::json& config, const ModelConfig& output) {
  write_mixtures(kMixtralKeys, config, output);
}

}  // namespace

constinit const ModelFamily kMistral{.model_type = "mistral",
                                     .architecture = "MistralForCausalLM",
                                     .absent = {.kv_heads = 8, .max_position_embeddings = 131072},
                                     .absent_in_wrapper = AbsentSizes{.hidden_size = 4096,
                                                                      .num_layers = 32,
                                                                      .num_heads = 32,
                                                                      .intermediate_size = 14336,
                                                                      .vocab_size = 32000},
                                     .read = read_mistral,
                                     .write = write_mistral,
                                     .exports_layer_sizes = true,
                                     .tokenizer = kFileAsItStands};

constinit const ModelFamily kMinistral3{.model_type = "ministral3",
                                        .architecture = "Ministral3ForCausalLM",
                                        .absent = {.kv_heads = 8,
                                                   .head_dim = 128,
                                                   .max_position_embeddings = 262144,
                                                   .rms_norm_eps = 1e-5},
                                        .read = read_ministral3,
                                        .tokenizer = kFileAsItStands};

constinit const ModelFamily kMixtral{
    .model_type = "mixtral",
    .architecture = "MixtralForCausalLM",
    .absent = {.kv_heads = 8, .max_position_embeddings = 131072, .rms_norm_eps = 1e-5},
    .read = read_mixtral,
    .write = write_mixtral,
    .tokenizer = kFileAsItStands};

}  // namespace dotresize
