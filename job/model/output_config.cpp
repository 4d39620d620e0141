#include "job/model/output_config.h"

#include <algorithm>
#include <set>

#include "base/text/checked_json.h"
#include "job/model/config_keys.h"
#include "job/model/families/families.h"
#include "job/model/families/rotary_settings.h"
#include "job/model/read_model_config.h"
#include "job/model/units/unit.h"

namespace dotresize {
namespace {

using nlohmann::json;

constexpr const char* kTextConfig = "text_config";

/// Copies what a source's rotary settings tell others than the computation of text: positions of
/// images, and weights of a yarn, which converters and engines look for although attention_factor
/// says what they amount to.
void keep_other_settings(const json& config, const RotaryConfig& rotary, json& settings) {
  std::vector<const char*> kept = {"mrope_section", "mrope_interleaved"};
  if (rotary.type == "yarn") kept.insert(kept.end(), {"mscale", "mscale_all_dim"});
  for (const char* section : {"rope_scaling", "rope_parameters"}) {
    const auto source = config.find(section);
    if (source == config.end() || !source->is_object()) continue;
    for (const char* key : kept) {
      if (source->contains(key)) settings[key] = (*source)[key];
    }
  }
}

void write_rotary(json& config, const RotaryConfig& rotary) {
  if (states_partial(rotary)) config["partial_rotary_factor"] = rotary.partial_factor;
  if (rotary.type == "longrope") {  // transformers 4 reads it here
    config["original_max_position_embeddings"] = rotary.original_max_position_embeddings;
  }
  json parameters = rotary_parameters(rotary);  // transformers 5
  keep_other_settings(config, rotary, parameters);
  json scaling;  // transformers 4
  if (rotary.type != "default") {
    scaling = rotary_scaling(rotary);
    keep_other_settings(config, rotary, scaling);
  }
  config["rope_parameters"] = std::move(parameters);
  config["rope_theta"] = rotary.theta;  // transformers 4
  config["rope_scaling"] = std::move(scaling);
}

/// Writes the keys that make transformers load the code beside the weights.
void write_custom_code(json& config, const ModelConfig& output) {
  config["model_type"] = "dotresize";
  config["architectures"] = {output.form.norm_weights
                                 ? layer_sizes_architecture(*find_family(output.family))
                                 : kNarrowedArchitecture};
  config["auto_map"] = custom_code_map(output);
  config["source_model_type"] = output.family;
  config["junction_widths"] = output.form.junction_widths;
  if (!output.form.shortcuts.empty()) {
    json& ranks = config["shortcut_ranks"] = json::array();
    int64_t factors = 1;
    for (const ShortcutForm& shortcut : output.form.shortcuts) {
      ranks.push_back(shortcut.rank ? json(*shortcut.rank) : json());
      factors = std::max(factors, shortcut.factors);
    }
    config["shortcut_factors"] = factors;
  }
  if (output.form.sizes_by_layer) {
    for (const Unit* unit : kUnits) {
      if (!unit->in_model(output)) continue;
      for (const LayerSpec& layer : output.layers) config[unit->key].push_back(unit->size(layer));
    }
  }
  if (output.form.norm_weights) config["norm_weights"] = true;
  if (output.tie_word_embeddings) {
    config["embedding_projection"] = output.form.embedding_projection;
    config["head_projection"] = output.form.head_projection;
  }
}

/// Writes the features of the MLPs that are not mixtures, if they are the same in all layers.
void write_features(json& config, const ModelConfig& output) {
  if (output.form.sizes_by_layer) return;
  const auto dense = std::ranges::find_if(
      output.layers, [](const LayerSpec& layer) { return !layer.mlp.mixture; });
  if (dense != output.layers.end()) config["intermediate_size"] = dense->mlp.intermediate_size;
}

void write_stock(json& config, const ModelConfig& output) {
  config["hidden_size"] = output.hidden_size;
  config["rms_norm_eps"] = output.rms_norm_eps;
  if (config["model_type"] == output.family) return;
  // Keys of another family than the source's, with values whose defaults differ between families.
  config["model_type"] = output.family;
  config["architectures"] = {std::string(find_family(output.family)->architecture)};
  config["max_position_embeddings"] = output.max_position_embeddings;
}

/// Returns the keys of a model of text: those of its source that are kept, with the changed values.
json text_config(const json& source, const std::set<std::string>& settings,
                 const ModelConfig& output) {
  json config = kept_config(source, settings);
  for (auto key = config.begin(); key != config.end();) {  // JSON has no such numbers
    const bool non_finite = *key == "NaN" || *key == "Infinity" || *key == "-Infinity";
    key = non_finite ? config.erase(key) : std::next(key);
  }
  if (output.files.wrapper) config["model_type"] = output.family;
  if (output.compressed) {
    write_custom_code(config, output);
  } else {
    write_stock(config, output);
  }
  const AttentionSpec& attention = output.layers.front().attention;  // the same in all layers
  config["tie_word_embeddings"] = output.tie_word_embeddings;
  config["head_dim"] = attention.head_dim;
  config["num_key_value_heads"] = attention.num_kv_heads;
  config["dtype"] = config["torch_dtype"] = to_string(output.files.dtypes.main);
  write_rotary(config, output.rotaries.front());
  write_features(config, output);
  const ModelFamily& family = *find_family(output.family);
  if (family.write != nullptr) family.write(config, output);
  return config;
}

}  // namespace

json custom_code_map(const ModelConfig& output) {
  if (!output.form.norm_weights) {
    return {{"AutoConfig", "configuration_dotresize.DotResizeConfig"},
            {"AutoModel", "modeling_dotresize.DotResizeModel"},
            {"AutoModelForCausalLM", "modeling_dotresize.DotResizeForCausalLM"}};
  }
  const ModelFamily& family = *find_family(output.family);
  const std::string stem = "modeling_layer_sizes." + layer_sizes_stem(family);
  return {{"AutoConfig", stem + "Config"},
          {"AutoModel", stem + "Model"},
          {"AutoModelForCausalLM", "modeling_layer_sizes." + layer_sizes_architecture(family)}};
}

std::string output_config_json(const std::string& source_config_json, const ModelConfig& output) {
  const std::string origin = "config.json of the source";
  const json source = parse_json_object(with_quoted_non_finite(source_config_json), origin);
  const std::set<std::string> settings = parse_config(source_config_json, origin).settings;
  if (!output.files.wrapper) return text_config(source, settings, output).dump(2) + "\n";
  json config = kept_wrapper_config(source);
  config[kTextConfig] = text_config(source.at(kTextConfig), settings, output);
  for (const char* key : {"tie_word_embeddings", "dtype", "torch_dtype"}) {
    config[key] = config[kTextConfig][key];
  }
  return config.dump(2) + "\n";
}

}  // namespace dotresize
