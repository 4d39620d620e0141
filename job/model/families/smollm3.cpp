#include <algorithm>
#include <nlohmann/json.hpp>

#include "job/model/families/families.h"
#include "job/model/families/layer_settings.h"
#include "job/model/families/rotary_settings.h"

namespace dotresize {
namespace {

/// Takes the rotary embedding from every layer whose entry of no_rope_layers is 0, or without that
/// list from every no_rope_layer_interval-th one.
void read_layers_without_rotary(const ConfigFields& fields, ModelConfig& config) {
  constexpr const char* kLayers = "no_rope_layers";
  const int64_t interval = fields.integer("no_rope_layer_interval", 1, kMaxLayers).value_or(4);
  const nlohmann::json& entries = fields.raw(kLayers);
  if (!entries.is_null() && (!entries.is_array() || std::ssize(entries) < config.num_layers())) {
    fields.fail(kLayers, "must be a list of at least num_hidden_layers, " +
                             std::to_string(config.num_layers()) + ", numbers");
  }
  for (int64_t layer = 0; layer < config.num_layers(); ++layer) {
    const auto index = static_cast<std::size_t>(layer);
    const bool rotates = entries.is_null()
                             ? (layer + 1) % interval != 0
                             : fields.required_integer(kLayers, entries[index], 0, 1) == 1;
    if (!rotates) config.layers[index].attention.rotary.reset();
  }
}

/// Sets the windows: without `layer_types` on the layers that have no rotary embedding.
void read_smollm3_windows(const ConfigFields& fields, ModelConfig& config) {
  fields.note({"sliding_window", "max_window_layers", "layer_types"});
  const bool used = fields.boolean("use_sliding_window", false);
  std::vector<bool> sliding;
  if (fields.has("layer_types")) {
    sliding = listed_windows(fields, used, config);
  } else if (used && fields.has("sliding_window")) {
    for (const LayerSpec& layer : config.layers) sliding.push_back(!layer.attention.rotary);
  }
  if (std::ranges::count(sliding, true) == 0) return;
  read_window(fields, /*if_absent=*/std::nullopt, sliding, config);
}

void read_smollm3(const ConfigFields& fields, ModelConfig& config) {
  read_attention_biases(fields, /*if_absent=*/false, config);
  read_mlp_biases(fields, config);
  read_layers_without_rotary(fields, config);
  read_smollm3_windows(fields, config);
  read_rotary(fields, {.theta_if_absent = 2e6}, config);
}

}  // namespace

constinit const ModelFamily kSmolLM3{
    .model_type = "smollm3",
    .architecture = "SmolLM3ForCausalLM",
    .absent = {.kv_heads = 4, .max_position_embeddings = 32768, .tie_word_embeddings = true},
    .read = read_smollm3};

}  // namespace dotresize
