#include "job/model/read_model_config.h"

#include <algorithm>
#include <string_view>
#include <system_error>

#include "base/errors.h"
#include "base/files/input_file.h"
#include "base/text/checked_json.h"
#include "base/text/printable.h"
#include "job/model/config_fields.h"
#include "job/model/config_keys.h"
#include "job/model/dtype.h"
#include "job/model/families/families.h"
#include "job/model/wrappers.h"

namespace dotresize {
namespace {

using nlohmann::json;

// Upper limit, larger than in any existing model, and small enough that no product of sizes
// overflows 64 bits.
constexpr int64_t kMaxSize = int64_t{1} << 22;
constexpr int64_t kMaxHeads = int64_t{1} << 11;

constexpr const char* kCompressedType = "dotresize";

void check_architectures(const ConfigFields& fields, const std::string& expected) {
  const json& architectures = fields.raw("architectures");
  if (architectures.is_null() || architectures == json::array({expected})) return;
  fields.fail("architectures", architectures.dump(-1, ' ', false, json::error_handler_t::replace) +
                                   " is refused; this model_type needs [\"" + expected + "\"]");
}

/// Reads the form of the weights. Refuses weights in a form or in a file that is not read.
void read_weights(const ConfigFields& fields, ModelConfig& config) {
  const std::optional<Quantisation> quantisation = read_quantisation(fields);
  if (quantisation) config.files.quantisation = quantisation;
  if (fields.has("transformers_weights")) {
    fields.fail("transformers_weights",
                "names a file that transformers loads in place of model.safetensors; rename that "
                "file to model.safetensors and remove the key");
  }
}

/// Returns the wrapper that a model of this type is, if its text part is all that there is to read.
std::optional<Wrapper> read_wrapper(const ConfigFields& whole, ModelConfig& config) {
  const std::string model_type = whole.text("model_type").value_or("");
  const WrapperSpec* spec = find_wrapper(model_type);
  if (spec == nullptr) {
    if (!whole.has("text_config") || find_family(model_type) != nullptr) return std::nullopt;
    whole.fail("model_type", in_quotes(model_type) +
                                 " is refused: of the models around one of text, " +
                                 accepted_wrappers() + " are read");
  }
  if (!whole.object("text_config")) whole.fail("text_config", "is missing");
  const std::string architecture(spec->architecture);
  check_architectures(whole, architecture);
  read_weights(whole, config);
  return Wrapper{.model_type = model_type, .architecture = architecture};
}

/// Reads the family, and refuses settings that change the forward pass in an unimplemented way.
const ModelFamily& read_family(const ConfigFields& fields, ModelConfig& config) {
  auto model_type = fields.text("model_type");
  if (!model_type && config.files.wrapper) {
    model_type = std::string(find_wrapper(config.files.wrapper->model_type)->text_type);
  }
  if (!model_type) fields.fail("model_type", "is missing");
  config.compressed = *model_type == kCompressedType && !config.files.wrapper;
  if (config.compressed) fields.note({"auto_map"});  // names the code beside the weights
  const std::string key = config.compressed ? "source_model_type" : "model_type";
  config.family = config.compressed ? fields.text(key).value_or("") : *model_type;
  if (config.family.empty()) fields.fail(key, "is missing");
  const ModelFamily* family = find_family(config.family);
  if (family == nullptr) fields.fail(key, reason_for_refusal(config.family));
  // Earlier versions named one class for outputs with and without maps.
  const bool by_layer = config.compressed && fields.boolean("norm_weights", false);
  const json& architectures = fields.raw("architectures");
  const std::string expected = !config.compressed ? std::string(family->architecture)
                               : by_layer && architectures != json::array({kNarrowedArchitecture})
                                   ? layer_sizes_architecture(*family)
                                   : kNarrowedArchitecture;
  check_architectures(fields, expected);
  read_weights(fields, config);
  for (const char* name : {"rms_norm_eps", family->activation_key, "attention_bias", "mlp_bias",
                           "max_position_embeddings", "tie_word_embeddings"}) {
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
  const std::string accepted =
      family->activation == Activation::kSilu ? "silu" : "gelu_pytorch_tanh";
  const std::string activation = fields.text(family->activation_key).value_or(accepted);
  const char* const other = family->other_activation_name;
  if (activation != accepted && (other == nullptr || activation != other)) {
    fields.fail(family->activation_key,
                "'" + activation + "' is refused; only '" + accepted + "' is supported");
  }
  return *family;
}

/// Reads the number of heads, which is `num_heads` if absent, and the sizes of each.
void read_heads(const ConfigFields& fields, const ModelFamily& family, int64_t hidden_size,
                std::optional<int64_t> num_heads, AttentionSpec& attention) {
  attention.num_heads = fields.integer_or("num_attention_heads", num_heads, kMaxHeads);
  const auto absent_kv_heads =
      fields.contains("num_key_value_heads") ? std::nullopt : family.absent.kv_heads;
  attention.num_kv_heads = fields.integer("num_key_value_heads", 1, kMaxHeads)
                               .value_or(absent_kv_heads.value_or(attention.num_heads));
  if (attention.num_heads % attention.num_kv_heads != 0) {
    fields.fail("num_key_value_heads", std::to_string(attention.num_kv_heads) +
                                           " does not divide num_attention_heads, " +
                                           std::to_string(attention.num_heads));
  }
  auto given = fields.integer("head_dim", 1, kMaxHeads);
  if (!given) given = family.absent.head_dim;
  if (!given && hidden_size % attention.num_heads != 0) {
    fields.fail("num_attention_heads",
                std::to_string(attention.num_heads) + " does not divide hidden_size, " +
                    std::to_string(hidden_size) + ", and head_dim is not given");
  }
  attention.head_dim = given.value_or(hidden_size / attention.num_heads);
  if (attention.head_dim % 2 != 0) {
    fields.fail("head_dim", std::to_string(attention.head_dim) +
                                " is odd; the rotary embedding needs an even head size");
  }
  if (attention.head_dim > kMaxHeads) {
    fields.fail("head_dim", std::to_string(attention.head_dim) +
                                " (hidden_size / heads) is above " + std::to_string(kMaxHeads));
  }
  attention.value_head_dim = attention.head_dim;
}

void read_sizes(const ConfigFields& fields, const ModelFamily& family, ModelConfig& config) {
  const auto absent = [&](std::optional<int64_t> otherwise, int64_t AbsentSizes::*size) {
    const bool in_wrapper = config.files.wrapper && family.absent_in_wrapper;
    return in_wrapper ? std::optional(*family.absent_in_wrapper.*size) : otherwise;
  };
  config.hidden_size =
      fields.integer_or("hidden_size", absent(std::nullopt, &AbsentSizes::hidden_size), kMaxSize);
  LayerSpec layer;
  layer.mlp.activation = family.activation;
  layer.mlp.intermediate_size = fields.integer_or(
      "intermediate_size", absent(family.absent.intermediate_size, &AbsentSizes::intermediate_size),
      kMaxSize);
  const int64_t layers = fields.integer_or(
      "num_hidden_layers", absent(std::nullopt, &AbsentSizes::num_layers), kMaxLayers);
  config.vocab_size = fields.integer_or(
      "vocab_size", absent(family.absent.vocab_size, &AbsentSizes::vocab_size), kMaxSize);
  config.max_position_embeddings = fields.integer("max_position_embeddings", 1, kMaxPositions)
                                       .value_or(family.absent.max_position_embeddings);
  read_heads(fields, family, config.hidden_size,
             absent(family.absent.num_heads, &AbsentSizes::num_heads), layer.attention);
  config.layers.assign(static_cast<std::size_t>(layers), layer);
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

}  // namespace

ParsedConfig parse_config(const std::string& json_text, const std::string& origin) {
  const json root = parse_json_object(with_quoted_non_finite(json_text), origin);
  const ConfigFields whole(root, origin);
  ParsedConfig parsed;
  ModelConfig& config = parsed.model;
  config.files.wrapper = read_wrapper(whole, config);
  const ConfigFields fields = config.files.wrapper ? *whole.object("text_config") : whole;
  const ModelFamily& family = read_family(fields, config);
  read_sizes(fields, family, config);
  config.rms_norm_eps = fields.positive("rms_norm_eps", 1.0).value_or(family.absent.rms_norm_eps);
  config.tie_word_embeddings =
      fields.boolean("tie_word_embeddings", family.absent.tie_word_embeddings);
  family.read(fields, config);
  config.files.stated_dtype = read_dtype(fields);
  if (config.files.wrapper) {
    parsed.text_ties = config.tie_word_embeddings;
    // transformers 4 ties by the text part's key, transformers 5 by the outer one.
    config.tie_word_embeddings = whole.boolean("tie_word_embeddings", config.tie_word_embeddings);
    if (!config.files.stated_dtype) config.files.stated_dtype = read_dtype(whole);
  }
  config.files.dtypes.main = config.files.stated_dtype.value_or(
      config.files.quantisation ? Dtype::kBFloat16 : Dtype::kFloat32);
  parsed.settings = known_settings(fields);
  read_narrow_form(fields, config);
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

void check_companions(const std::filesystem::path& model_dir) {
  std::vector<const char*> names(kCompanionFiles.begin(), kCompanionFiles.end());
  names.insert(names.end(), kProcessorFiles.begin(), kProcessorFiles.end());
  for (const char* name : names) {
    std::error_code error;
    const std::filesystem::file_status status = std::filesystem::status(model_dir / name, error);
    if (!std::filesystem::exists(status) || std::filesystem::is_regular_file(status)) continue;
    throw InputError("model.path", (model_dir / name).string() +
                                       " is not a regular file, and the output needs a copy of it");
  }
  for (const char* name : names) {
    const bool is_vocabulary = std::ranges::count(kVocabularyFiles, std::string_view(name)) > 0;
    if (is_vocabulary || !std::string_view(name).ends_with(".json")) continue;
    if (std::error_code error; !std::filesystem::exists(model_dir / name, error)) continue;
    read_json_object(model_dir / name, kMaxCompanionBytes);
  }
}

}  // namespace dotresize
