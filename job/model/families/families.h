#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "job/model/config_fields.h"
#include "job/model/model_config.h"
#include "job/model/tokenizer_class.h"

namespace dotresize {

/// Values for keys that a config.json does not have, as in transformers' configuration classes.
struct AbsentValues {
  // Absent: the key is required.
  std::optional<int64_t> num_heads = std::nullopt;
  std::optional<int64_t> vocab_size = std::nullopt;
  std::optional<int64_t> intermediate_size = std::nullopt;
  /// Absent: the number of query heads.
  std::optional<int64_t> kv_heads = std::nullopt;
  /// Absent: hidden_size / heads.
  std::optional<int64_t> head_dim = std::nullopt;
  int64_t max_position_embeddings = 0;
  double rms_norm_eps = 1e-6;
  bool tie_word_embeddings = false;
};

/// Sizes for keys that the text part of a wrapper does not have, likewise. A model of text has to
/// state them.
struct AbsentSizes {
  int64_t hidden_size;
  int64_t num_layers;
  int64_t num_heads;
  int64_t intermediate_size;
  int64_t vocab_size;
};

/// Family whose models compute the same as those of another one.
struct TwinFamily {
  std::string_view model_type;
  /// Reason why this config has no such model; empty if it has one.
  std::string (*refuses)(const ModelConfig& config);
  /// True if loaders read a stock output of this width better as one of the twin (docs/serving.md).
  bool (*is_read_better)(const ModelConfig& config, int64_t width);
};

/// Supported architecture. Its file in this folder, which may be that of its kin, reads its
/// config.json.
struct ModelFamily {
  std::string_view model_type;
  std::string_view architecture;  ///< the only accepted entry of `architectures`
  AbsentValues absent;
  std::optional<AbsentSizes> absent_in_wrapper = std::nullopt;
  /// Reads what is particular to the family. `config` has its sizes, and layers whose attentions
  /// and MLPs have theirs; `read` sets biases, norms, windows and mixtures of the layers, and the
  /// rotary embeddings. Throws InputError for values that are not supported.
  void (*read)(const ConfigFields& fields, ModelConfig& config);
  /// Writes keys of `output` that only this family has. Null: it has none.
  void (*write)(nlohmann::json& config, const ModelConfig& output) = nullptr;
  /// Reason why there is no narrower stock model of this config; empty if there is one. Null: there
  /// always is.
  std::string (*refuses_stock)(const ModelConfig& config) = nullptr;
  /// Key and name of the only accepted activation.
  const char* activation_key = "hidden_act";
  Activation activation = Activation::kSilu;
  const char* other_activation_name = nullptr;  ///< accepted too, and means the same
  bool heads_divide_hidden_size = false;  ///< required by its configuration class, for any head_dim
  /// Custom outputs without maps can be exported: their layers are those of a llama.
  bool exports_layer_sizes = false;
  std::optional<TwinFamily> twin = std::nullopt;
  /// Beginning of the names of its configuration and base model. Empty: that of `architecture`.
  std::string_view stem = {};
  FamilyTokenizer tokenizer = {};
};

// One architecture each, in the file of its name or of its kin.

extern const ModelFamily kLlama;
extern const ModelFamily kMistral;
extern const ModelFamily kPhi3;
extern const ModelFamily kQwen2;
extern const ModelFamily kQwen3;
extern const ModelFamily kSmolLM3;
extern const ModelFamily kGranite;
extern const ModelFamily kSeedOss;
extern const ModelFamily kGemma;
extern const ModelFamily kGemma2;
extern const ModelFamily kGemma3Text;
extern const ModelFamily kOlmo2;
extern const ModelFamily kOlmo3;
extern const ModelFamily kMinistral3;
extern const ModelFamily kGlm4;
extern const ModelFamily kExaone4;
extern const ModelFamily kHunyuanV1Dense;
extern const ModelFamily kQwen3_5Text;
extern const ModelFamily kMixtral;
extern const ModelFamily kQwen3Moe;
extern const ModelFamily kQwen2Moe;
extern const ModelFamily kGlm4Moe;
extern const ModelFamily kGptOss;
extern const ModelFamily kQwen3_5MoeText;

/// Returns null for an unsupported family.
const ModelFamily* find_family(std::string_view model_type);

/// Model type of the family whose models can be stated as those of `twin`; empty if there is none.
std::string_view family_with_twin(std::string_view twin);

/// Error text: the reason why a model_type is refused, and the accepted ones.
std::string reason_for_refusal(const std::string& model_type);

/// `architectures` of a custom output with maps.
inline constexpr const char* kNarrowedArchitecture = "DotResizeForCausalLM";

/// `architectures` of a custom output without maps, whose class is the family's with sizes by
/// layer.
std::string layer_sizes_architecture(const ModelFamily& family);

/// Beginning of the names of the other classes beside it: "DotResizeLlama".
std::string layer_sizes_stem(const ModelFamily& family);

}  // namespace dotresize
