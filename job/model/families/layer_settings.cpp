#include "job/model/families/layer_settings.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

namespace dotresize {
namespace {

using nlohmann::json;

constexpr int64_t kMaxExperts = 2048;  // larger than in any existing model

constexpr const char* kVersion5Experts = "num_local_experts";

/// Returns the layers with a window, by max_window_layers: those from it on.
std::vector<bool> layers_from_max_window(const ConfigFields& fields, const ModelConfig& config) {
  constexpr int64_t kFirstIfAbsent = 28;
  const int64_t first = fields.integer("max_window_layers", 0, kMaxLayers).value_or(kFirstIfAbsent);
  std::vector<bool> sliding;
  for (int64_t layer = 0; layer < config.num_layers(); ++layer) sliding.push_back(layer >= first);
  return sliding;
}

}  // namespace

void set_attention_biases(bool bias, bool output_bias, ModelConfig& config) {
  for (LayerSpec& layer : config.layers) {
    layer.attention.bias = bias;
    layer.attention.output_bias = output_bias;
  }
}

void read_attention_biases(const ConfigFields& fields, bool if_absent, ModelConfig& config) {
  const bool bias = fields.boolean("attention_bias", if_absent);
  set_attention_biases(bias, bias, config);
}

void read_mlp_biases(const ConfigFields& fields, ModelConfig& config) {
  const bool bias = fields.boolean("mlp_bias", false);
  for (LayerSpec& layer : config.layers) layer.mlp.bias = bias;
}

void refuse_biases(const ConfigFields& fields, std::initializer_list<const char*> keys,
                   const ModelConfig& config) {
  for (const char* key : keys) {
    if (!fields.boolean(key, false)) continue;
    const std::string part = key == std::string_view("mlp_bias") ? "the MLP of " : "";
    fields.fail(key, part + "a model of the family " + config.family + " has no biases");
  }
}

void read_window(const ConfigFields& fields, std::optional<int64_t> if_absent,
                 ModelConfig& config) {
  const std::optional<int64_t> window = fields.contains("sliding_window")
                                            ? fields.integer("sliding_window", 1, kMaxPositions)
                                            : if_absent;
  for (LayerSpec& layer : config.layers) layer.attention.sliding_window = window;
}

void read_window(const ConfigFields& fields, std::optional<int64_t> if_absent,
                 const std::vector<bool>& layers, ModelConfig& config) {
  read_window(fields, if_absent, config);
  const int64_t sliding = std::ranges::count(layers, true);
  if (sliding > 0 && fields.contains("sliding_window") && !fields.has("sliding_window")) {
    fields.fail("sliding_window", "is null, and " + std::to_string(sliding) + " of " +
                                      std::to_string(layers.size()) +
                                      " layers have a window: give its length");
  }
  for (std::size_t layer = 0; layer < layers.size(); ++layer) {
    if (!layers[layer]) config.layers[layer].attention.sliding_window.reset();
  }
}

std::vector<bool> listed_windows(const ConfigFields& fields, bool used, const ModelConfig& config) {
  std::vector<bool> sliding = sliding_layers(fields, config);
  if (!used && std::ranges::count(sliding, true) > 0) {
    fields.fail("layer_types", "sliding_attention contradicts use_sliding_window, false");
  }
  return sliding;
}

void read_window_by_layer(const ConfigFields& fields, ModelConfig& config) {
  // Every published config of these families has them, whether or not a window is used.
  fields.note({"sliding_window", "use_sliding_window", "max_window_layers", "layer_types"});
  const bool used = fields.boolean("use_sliding_window", false);
  const bool listed = fields.has("layer_types");
  const std::vector<bool> sliding =
      listed ? listed_windows(fields, used, config) : layers_from_max_window(fields, config);
  if (!used || std::ranges::count(sliding, true) == 0) return;
  // Without a list, a null says that no layer has a window.
  if (!listed && fields.contains("sliding_window") && !fields.has("sliding_window")) return;
  constexpr int64_t kWindowIfAbsent = 4096;
  read_window(fields, kWindowIfAbsent, sliding, config);
}

std::vector<bool> layers_of_type(const ConfigFields& fields, const char* type,
                                 const ModelConfig& config) {
  const json& types = fields.raw("layer_types");
  if (!types.is_array() || std::ssize(types) != config.num_layers()) {
    fields.fail("layer_types", "must be a list of num_hidden_layers, " +
                                   std::to_string(config.num_layers()) + ", types");
  }
  std::vector<bool> found;
  for (const json& given : types) {
    found.push_back(given == type);
    if (!found.back() && given != "full_attention") {
      fields.fail("layer_types", "only full_attention and " + std::string(type) + " are supported");
    }
  }
  return found;
}

std::vector<bool> layers_of_type(const ConfigFields& fields, const char* type, int64_t period,
                                 const ModelConfig& config) {
  if (fields.has("layer_types")) return layers_of_type(fields, type, config);
  std::vector<bool> found;
  for (int64_t layer = 1; layer <= config.num_layers(); ++layer) {
    found.push_back(layer % period != 0);
  }
  return found;
}

std::vector<bool> sliding_layers(const ConfigFields& fields, const ModelConfig& config) {
  return layers_of_type(fields, "sliding_attention", config);
}

std::vector<bool> sliding_layers(const ConfigFields& fields, int64_t period,
                                 const ModelConfig& config) {
  return layers_of_type(fields, "sliding_attention", period, config);
}

void read_mixtures(const ConfigFields& fields, const MixtureKeys& keys, const MixtureSpec& form,
                   const std::vector<bool>& layers, ModelConfig& config) {
  MixtureSpec mixture = form;
  const std::string key = fields.has(keys.experts) ? keys.experts : kVersion5Experts;
  if (!fields.has(key)) fields.fail(keys.experts, "is missing");
  mixture.experts = fields.required_integer(key, 1, kMaxExperts);
  if (fields.has(kVersion5Experts) &&
      fields.integer(kVersion5Experts, 1, kMaxExperts) != mixture.experts) {
    fields.fail(kVersion5Experts, "contradicts " + key + ", " + std::to_string(mixture.experts));
  }
  mixture.experts_per_token = fields.required_integer("num_experts_per_tok", 1, kMaxExperts);
  if (mixture.experts_per_token > mixture.experts) {
    fields.fail("num_experts_per_tok", std::to_string(mixture.experts_per_token) + " is above " +
                                           std::to_string(mixture.experts) +
                                           ", the number of experts");
  }
  const int64_t rows = fields.required_integer(keys.intermediate_size, 1, kMaxRows);
  mixture.expert_size = rows;
  if (keys.shared_size != nullptr) {
    mixture.shared_size = fields.required_integer(keys.shared_size, 1, kMaxRows);
  }
  if (mixture.experts > kMaxRows / rows) {
    fields.fail(keys.intermediate_size,
                std::to_string(rows) + " rows in each of " + std::to_string(mixture.experts) +
                    " experts are above " + std::to_string(kMaxRows) + " together");
  }
  for (std::size_t layer = 0; layer < config.layers.size(); ++layer) {
    if (!layers.at(layer)) continue;
    config.layers[layer].mlp.mixture = mixture;
    config.layers[layer].mlp.intermediate_size = rows;
  }
}

std::vector<bool> mixtures_by_step(const ConfigFields& fields, const ModelConfig& config) {
  fields.refuse_null("decoder_sparse_step");
  const int64_t step = fields.integer("decoder_sparse_step", 1, kMaxLayers).value_or(1);
  std::vector<bool> layers;
  for (int64_t layer = 1; layer <= config.num_layers(); ++layer)
    layers.push_back(layer % step == 0);
  const json& dense = fields.raw("mlp_only_layers");
  if (!dense.is_null() && !dense.is_array()) {
    fields.fail("mlp_only_layers", "must be a list of layers");
  }
  for (const json& layer : dense) {
    const int64_t number =
        fields.required_integer("mlp_only_layers", layer, 0, config.num_layers() - 1);
    layers[static_cast<std::size_t>(number)] = false;
  }
  return layers;
}

void write_mixtures(const MixtureKeys& keys, json& config, const ModelConfig& output) {
  const auto layer = std::ranges::find_if(
      output.layers, [](const LayerSpec& spec) { return spec.mlp.mixture.has_value(); });
  if (layer == output.layers.end()) return;
  if (output.form.sizes_by_layer) {  // the lists say what is left of the source's numbers
    if (!config.contains(keys.experts)) config[keys.experts] = config[kVersion5Experts];
    // transformers can sum up the routers' outputs only if all have equally many experts.
    config["output_router_logits"] = false;
  } else {
    config[keys.experts] = layer->mlp.mixture->experts;
    config[keys.intermediate_size] = layer->mlp.intermediate_size;
    if (keys.shared_size != nullptr) config[keys.shared_size] = shared_features(layer->mlp);
  }
  config[kVersion5Experts] = config[keys.experts];
}

}  // namespace dotresize
