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
                                     .exports_layer_sizes = true};

}  // namespace dotresize
