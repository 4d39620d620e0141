#include "job/model/read_model_config.h"

#include <algorithm>
#include <system_error>

#include "base/errors.h"
#include "base/files/input_file.h"
#include "base/text/checked_json.h"
#include "job/model/config_fields.h"
#include "job/model/config_keys.h"
#include "job/model/config_sections.h"
#include "job/model/dtype.h"
#include "job/model/model_family.h"

namespace dotresize {
namespace {

using nlohmann::json;

// Upper limit, larger than in any existing model, and small enough that no product of sizes
// overflows 64 bits.
constexpr int64_t kMaxSize = int64_t{1} << 22;
constexpr int64_t kMaxHeads = int64_t{1} << 11;

constexpr const char* kCompressedType = "dotresize";

/// Reads the family, and refuses settings that change the forward pass in an unimplemented way.
const ModelFamily& read_family(const ConfigFields& fields, ModelConfig& config) {
  const auto model_type = fields.text("model_type");
  if (!model_type) fields.fail("model_type", "is missing");
  config.compressed = *model_type == kCompressedType;
  if (config.compressed) fields.note({"auto_map"});  // names the code beside the weights
  const std::string key = config.compressed ? "source_model_type" : "model_type";
  config.family = fields.text(key).value_or("");
  if (config.family.empty()) fields.fail(key, "is missing");
  const ModelFamily* family = find_family(config.family);
  if (family == nullptr) fields.fail(key, reason_for_refusal(config.family));
  // Earlier versions named one class for outputs with and without maps.
  const bool by_layer = config.compressed && fields.boolean("norm_weights", false);
  const json& architectures = fields.raw("architectures");
  const std::string expected = !config.compressed ? family->architecture
                               : by_layer && architectures != json::array({kNarrowedArchitecture})
                                   ? layer_sizes_architecture(*family)
                                   : kNarrowedArchitecture;
  if (!architectures.is_null() && architectures != json::array({expected})) {
    fields.fail("architectures",
                architectures.dump(-1, ' ', false, json::error_handler_t::replace) +
                    " is refused; this model_type needs [\"" + expected + "\"]");
  }
  for (const char* section : {"quantization_config", "compression_config"}) {
    const json& quantisation = fields.raw(section);
    if (quantisation.is_null() || quantisation == json::object()) continue;
    fields.fail(section,
                "quantised checkpoints are refused; give the float32, float16 or bfloat16 model "
                "(if these weights are not quantised, remove the key)");
  }
  if (fields.has("transformers_weights")) {
    fields.fail("transformers_weights",
                "names a file that transformers loads in place of model.safetensors; rename that "
                "file to model.safetensors and remove the key");
  }
  for (const char* name : {"rms_norm_eps", "hidden_act", "attention_bias", "mlp_bias"}) {
    fields.refuse_null(name);
  }
  // transformers 5 takes the causal mask away.
  if (!fields.boolean("is_causal", true)) {
    fields.fail("is_causal", "is false; only models that see earlier tokens alone are supported");
  }
  if (fields.boolean("use_bidirectional_attention", false)) {
    fields.fail("use_bidirectional_attention",
                "is true; only models that see earlier tokens alone are supported");
  }
  const std::string activation = fields.text("hidden_act").value_or("silu");
  if (activation != "silu") {
    fields.fail("hidden_act", "'" + activation + "' is refused; only 'silu' is supported");
  }
  return *family;
}

void read_sizes(const ConfigFields& fields, const ModelFamily& family, ModelConfig& config) {
  config.hidden_size = fields.required_integer("hidden_size", 1, kMaxSize);
  config.intermediate_size = fields.required_integer("intermediate_size", 1, kMaxSize);
  config.num_layers = fields.required_integer("num_hidden_layers", 1, kMaxLayers);
  config.vocab_size = fields.required_integer("vocab_size", 1, kMaxSize);
  config.max_position_embeddings = fields.integer("max_position_embeddings", 1, kMaxPositions)
                                       .value_or(family.max_position_embeddings_if_absent);
  config.attention.num_heads = fields.required_integer("num_attention_heads", 1, kMaxHeads);
  const auto absent_kv_heads =
      fields.contains("num_key_value_heads") ? std::nullopt : family.kv_heads_if_absent;
  config.attention.num_kv_heads =
      fields.integer("num_key_value_heads", 1, kMaxHeads)
          .value_or(absent_kv_heads.value_or(config.attention.num_heads));
  if (config.attention.num_heads % config.attention.num_kv_heads != 0) {
    fields.fail("num_key_value_heads", std::to_string(config.attention.num_kv_heads) +
                                           " does not divide num_attention_heads, " +
                                           std::to_string(config.attention.num_heads));
  }
  auto given = fields.integer("head_dim", 1, kMaxHeads);
  if (!given) given = family.head_dim_if_absent;
  if (!given && config.hidden_size % config.attention.num_heads != 0) {
    fields.fail("num_attention_heads",
                std::to_string(config.attention.num_heads) + " does not divide hidden_size, " +
                    std::to_string(config.hidden_size) + ", and head_dim is not given");
  }
  config.attention.head_dim = given.value_or(config.hidden_size / config.attention.num_heads);
  if (config.attention.head_dim % 2 != 0) {
    fields.fail("head_dim", std::to_string(config.attention.head_dim) +
                                " is odd; the rotary embedding needs an even head size");
  }
  if (config.attention.head_dim > kMaxHeads) {
    fields.fail("head_dim", std::to_string(config.attention.head_dim) +
                                " (hidden_size / heads) is above " + std::to_string(kMaxHeads));
  }
}

void read_biases(const ConfigFields& fields, const ModelFamily& family, ModelConfig& config) {
  using AttentionBias = ModelFamily::AttentionBias;
  const bool asked = fields.boolean("attention_bias", false);
  config.attention.output_bias = asked && family.attention_bias == AttentionBias::kAsConfigured;
  config.attention.bias =
      config.attention.output_bias || family.attention_bias == AttentionBias::kQkv;
  config.mlp_bias = fields.boolean("mlp_bias", false);
  if (asked && !config.attention.bias) {
    fields.fail("attention_bias", "a model of the family " + family.model_type + " has no biases");
  }
  if (config.mlp_bias && !family.offers_mlp_bias) {
    fields.fail("mlp_bias",
                "the MLP of a model of the family " + family.model_type + " has no biases");
  }
}

/// Number of layers that `layer_types` gives a sliding window.
int64_t count_sliding_types(const ConfigFields& fields, const ModelConfig& config) {
  const json& types = fields.raw("layer_types");
  if (!types.is_array() || std::ssize(types) != config.num_layers) {
    fields.fail("layer_types", "must be a list of num_hidden_layers, " +
                                   std::to_string(config.num_layers) + ", types");
  }
  const int64_t sliding = std::count(types.begin(), types.end(), "sliding_attention");
  if (sliding + std::count(types.begin(), types.end(), "full_attention") != config.num_layers) {
    fields.fail("layer_types", "only full_attention and sliding_attention are supported");
  }
  return sliding;
}

/// Number of layers with a sliding window, for a family that decides it by layer.
int64_t count_sliding_layers(const ConfigFields& fields, const ModelConfig& config) {
  const bool used = fields.boolean("use_sliding_window", false);
  if (!fields.has("layer_types")) {
    constexpr int64_t kFirstSlidingIfAbsent = 28;
    const int64_t first =
        fields.integer("max_window_layers", 0, kMaxLayers).value_or(kFirstSlidingIfAbsent);
    return used ? std::max(config.num_layers - first, int64_t{0}) : 0;
  }
  const int64_t sliding = count_sliding_types(fields, config);
  if (sliding > 0 && !used) {
    fields.fail("layer_types", "sliding_attention contradicts use_sliding_window, false");
  }
  return sliding;
}

void read_window(const ConfigFields& fields, const ModelFamily& family, ModelConfig& config) {
  // Keys that every published config of these families has, whether or not a window is used.
  if (family.window == ModelFamily::Window::kIfUsed ||
      family.window == ModelFamily::Window::kByLayerType) {
    fields.note({"sliding_window", "use_sliding_window", "max_window_layers", "layer_types"});
  }
  if (family.window == ModelFamily::Window::kNone) return;
  if (family.window == ModelFamily::Window::kIfUsed &&
      !fields.boolean("use_sliding_window", false)) {
    return;
  }
  const bool by_type = family.layer_types_name_window && fields.has("layer_types");
  if (by_type) fields.note({"sliding_window"});
  if (by_type || family.window == ModelFamily::Window::kByLayerType) {
    const int64_t sliding =
        by_type ? count_sliding_types(fields, config) : count_sliding_layers(fields, config);
    if (sliding == 0) return;
    if (sliding < config.num_layers) {
      fields.fail(by_type ? "layer_types" : "use_sliding_window",
                  "a window on " + std::to_string(sliding) + " of " +
                      std::to_string(config.num_layers) +
                      " layers is not supported; it must be on all of them or on none");
    }
  }
  config.attention.sliding_window = fields.contains("sliding_window")
                                        ? fields.integer("sliding_window", 1, kMaxPositions)
                                        : family.sliding_window_if_absent;
}

std::optional<Dtype> read_dtype(const ConfigFields& fields) {
  std::optional<Dtype> dtype;
  for (const char* key : {"torch_dtype", "dtype"}) {  // transformers 4, transformers 5
    const auto given = fields.text(key);
    if (!given) continue;
    const std::optional<Dtype> found = find_dtype(*given);
    if (!found) {
      fields.fail(key, "'" + *given + "' is not one of float32, float16, bfloat16");
    }
    if (dtype && dtype != found) {
      fields.fail(key, "'" + *given + "' contradicts torch_dtype, '" + to_string(*dtype) + "'");
    }
    dtype = found;
  }
  return dtype;
}

std::vector<int64_t> read_junction_widths(const ConfigFields& fields, const ModelConfig& config) {
  const auto count = static_cast<std::size_t>(config.num_junctions());
  if (!config.compressed) return std::vector<int64_t>(count, config.hidden_size);
  const json& widths = fields.raw("junction_widths");
  if (!widths.is_array() || widths.size() != count) {
    fields.fail("junction_widths", "must be a list of " + std::to_string(count) +
                                       " widths, two per layer and one more");
  }
  std::vector<int64_t> result;
  for (const json& width : widths) {
    result.push_back(fields.required_integer("junction_widths", width, 1, config.hidden_size));
  }
  return result;
}

/// Reads the projections between a compressed model's shared table and the stream.
void read_projections(const ConfigFields& fields, ModelConfig& config) {
  if (!config.compressed) return;
  const auto read = [&](const char* key, int64_t width) {
    const bool given = fields.boolean(key, false);
    if (given && !config.tie_word_embeddings) {
      fields.fail(key, "is true, but tie_word_embeddings is false: there is no common table");
    }
    if (!given && config.tie_word_embeddings && width != config.hidden_size) {
      fields.fail(key, "is false, but the junction is " + std::to_string(width) +
                           " wide, and the common table hidden_size, " +
                           std::to_string(config.hidden_size));
    }
    return given;
  };
  config.form.embedding_projection =
      read("embedding_projection", config.form.junction_widths.front());
  config.form.head_projection = read("head_projection", config.form.junction_widths.back());
}

bool read_norm_weights(const ConfigFields& fields, const ModelConfig& config) {
  if (!config.compressed || !fields.boolean("norm_weights", false)) return false;
  const bool whole = std::ranges::all_of(
      config.form.junction_widths, [&](int64_t width) { return width == config.hidden_size; });
  if (!whole) fields.fail("norm_weights", "is true, but there are junctions of less width");
  if (config.form.embedding_projection || config.form.head_projection) {
    fields.fail("norm_weights", "is true, so there is no map and no projection to one");
  }
  return true;
}

std::vector<int64_t> read_junction_groups(const ConfigFields& fields, const ModelConfig& config) {
  if (!config.compressed || !fields.has("junction_groups")) return {};
  const json& groups = fields.raw("junction_groups");
  const std::vector<int64_t>& widths = config.form.junction_widths;
  if (!groups.is_array() || groups.size() != widths.size()) {
    fields.fail("junction_groups", "must be a list of " + std::to_string(widths.size()) +
                                       " numbers, two per layer and one more");
  }
  std::vector<int64_t> result;
  for (const json& group : groups) {
    const int64_t least = result.empty() ? 0 : result.back();
    result.push_back(fields.required_integer("junction_groups", group, least, kMaxLayers * 2));
    const std::size_t junction = result.size() - 1;
    if (junction > 0 && result[junction] == least && widths[junction] != widths[junction - 1]) {
      fields.fail("junction_groups", "puts the widths " + std::to_string(widths[junction - 1]) +
                                         " and " + std::to_string(widths[junction]) +
                                         " into one group");
    }
  }
  return result;
}

std::vector<ShortcutForm> read_shortcuts(const ConfigFields& fields, const ModelConfig& config) {
  constexpr const char* kRanks = "shortcut_ranks";
  if (!config.compressed || !fields.has(kRanks)) return {};
  const json& ranks = fields.raw(kRanks);
  const auto count = static_cast<std::size_t>(config.num_sublayers());
  if (!ranks.is_array() || ranks.size() != count) {
    fields.fail(kRanks, "must be a list of " + std::to_string(count) +
                            " ranks, two per layer; null for a shortcut that is one matrix");
  }
  const int64_t factors = fields.required_integer("shortcut_factors", 1, 2);
  std::vector<ShortcutForm> result;
  for (const json& rank : ranks) {
    const std::size_t in = result.size();
    const int64_t least =
        std::min(config.form.junction_widths[in], config.form.junction_widths[in + 1]);
    const bool shared = in_one_group(config.form.junction_groups, std::ssize(result));
    if (!rank.is_null()) {
      const int64_t most = shared ? 0 : least;
      result.push_back({fields.required_integer(kRanks, rank, 0, most), factors});
    } else if (!shared) {
      result.push_back({.factors = factors});
    } else {
      fields.fail(kRanks, "is null within a group, whose shortcuts are the identity; 0 is needed");
    }
  }
  return result;
}

/// Reads a list with one number per layer, each at most the sublayer's size in the source. Empty if
/// the key is absent.
std::vector<int64_t> read_by_layer(const ConfigFields& fields, const ModelConfig& config,
                                   const std::string& key, const std::string& what,
                                   int64_t (*of_source)(const ModelConfig&, int64_t sublayer),
                                   int64_t first_sublayer) {
  if (!fields.has(key)) return {};
  const json& sizes = fields.raw(key);
  if (!sizes.is_array() || std::ssize(sizes) != config.num_layers) {
    fields.fail(key, "must be a list of num_hidden_layers, " + std::to_string(config.num_layers) +
                         ", numbers of " + what);
  }
  std::vector<int64_t> result;
  for (const json& size : sizes) {
    const int64_t sublayer = first_sublayer + 2 * std::ssize(result);
    const int64_t least = has_output_bias(config, sublayer) ? 1 : 0;
    result.push_back(fields.required_integer(key, size, least, of_source(config, sublayer)));
  }
  return result;
}

}  // namespace

ParsedConfig parse_config(const std::string& json_text, const std::string& origin) {
  const json root = parse_json_object(with_quoted_non_finite(json_text), origin);
  const ConfigFields fields(root, origin);
  ParsedConfig parsed;
  ModelConfig& config = parsed.model;
  const ModelFamily& family = read_family(fields, config);
  read_sizes(fields, family, config);
  config.rms_norm_eps =
      fields.positive("rms_norm_eps", 1.0).value_or(family.rms_norm_eps_if_absent);
  config.tie_word_embeddings = fields.boolean("tie_word_embeddings", false);
  config.fused_in_proj = family.fused_in_proj;
  config.attention.head_norms = family.head_norms;
  read_biases(fields, family, config);
  read_window(fields, family, config);
  read_rotary_config(fields, family, config);
  config.mixture = read_mixture_config(fields, family, config);
  config.stated_dtype = read_dtype(fields);
  config.dtypes.main = config.stated_dtype.value_or(Dtype::kFloat32);
  config.form.junction_widths = read_junction_widths(fields, config);
  read_projections(fields, config);
  config.form.norm_weights = read_norm_weights(fields, config);
  config.form.junction_groups = read_junction_groups(fields, config);
  config.form.shortcuts = read_shortcuts(fields, config);
  constexpr const char* kDims = "value_head_dims";
  if (config.compressed) {
    config.form.intermediate_sizes =
        read_by_layer(fields, config, "intermediate_sizes", "features", mlp_width, 1);
    config.form.value_head_dims =
        read_by_layer(fields, config, kDims, "channels", value_head_dim, 0);
  } else if (fields.has(kDims)) {
    fields.fail(kDims,
                "the value heads of a model of the family " + config.family +
                    " are as wide as head_dim says; those of model_type dotresize may not be");
  }
  parsed.warnings = warnings_about_keys(fields, config.family);
  return parsed;
}

ModelConfig parse_model_config(const std::string& json_text, const std::string& origin) {
  return parse_config(json_text, origin).model;
}

ModelConfig read_model_config(const std::filesystem::path& model_dir,
                              const Confinement& confinement) {
  return read_parsed_config(model_dir, confinement).model;
}

ParsedConfig read_parsed_config(const std::filesystem::path& model_dir,
                                const Confinement& confinement) {
  std::error_code error;
  if (!std::filesystem::is_directory(model_dir, error)) {
    throw InputError(model_dir.string() + ": no such model directory");
  }
  const std::filesystem::path path = model_dir / "config.json";
  return parse_config(read_whole_file(path, kMaxConfigBytes, confinement), shown_path(path));
}

void require_regular_companions(const std::filesystem::path& model_dir) {
  for (const char* name : kCompanionFiles) {
    std::error_code error;
    const std::filesystem::file_status status = std::filesystem::status(model_dir / name, error);
    if (!std::filesystem::exists(status) || std::filesystem::is_regular_file(status)) continue;
    throw InputError("model.path", (model_dir / name).string() +
                                       " is not a regular file, and the output needs a copy of it");
  }
  for (const char* name : kFilteredFiles) {
    if (std::error_code error; !std::filesystem::exists(model_dir / name, error)) continue;
    read_json_object(model_dir / name, kMaxCompanionBytes);
  }
}

}  // namespace dotresize
