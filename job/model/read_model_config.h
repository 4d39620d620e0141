#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/files/confinement.h"
#include "job/model/model_config.h"

namespace dotresize {

/// Largest size of a config.json.
inline constexpr uint64_t kMaxConfigBytes = uint64_t{16} << 20;

/// Reads and checks `model_dir`/config.json. Throws InputError for a missing or malformed file, an
/// unsupported architecture or variant (with its name and the reason), or contradictory values.
ModelConfig read_model_config(const std::filesystem::path& model_dir,
                              const Confinement& confinement = Confinement::of_process());

/// A config.json, and what became of its keys.
struct ParsedConfig {
  ModelConfig model;
  /// Keys that the model's family reads, whether or not the file has them.
  std::set<std::string> settings;
  bool text_ties = false;  ///< a wrapper's text part alone is tied
  /// Sentences on keys that are neither read nor known to be without effect.
  std::vector<std::string> warnings;
};

ParsedConfig read_parsed_config(const std::filesystem::path& model_dir,
                                const Confinement& confinement = Confinement::of_process());
ParsedConfig parse_config(const std::string& json_text, const std::string& origin);

/// Text version of read_model_config; `origin` names the text in errors.
ModelConfig parse_model_config(const std::string& json_text, const std::string& origin);

class ConfigFields;

/// Reads the form of a compressed model, and the sizes of its layers, from config.json
/// (narrow_form.cpp). A dense model gets junctions of full width. `config` must have the source's
/// layers already. Throws InputError for sizes out of range and contradictory values.
void read_narrow_form(const ConfigFields& fields, ModelConfig& config);

/// Reads `quantization_config` (or `compression_config`; quantisation.cpp). Absent: the weights are
/// not quantised. Throws InputError for every form that is not read, by its name, with the command
/// that dequantises such a model.
std::optional<Quantisation> read_quantisation(const ConfigFields& fields);

/// Files beside config.json and weights that are copied from the model to its output unchanged.
inline constexpr std::array<const char*, 11> kCompanionFiles = {
    "tokenizer.json",     "tokenizer_config.json",
    "tokenizer.model",    "special_tokens_map.json",
    "vocab.json",         "merges.txt",
    "added_tokens.json",  "chat_template.jinja",
    "chat_template.json", "generation_config.json",
    "tekken.json"};

/// Files likewise that say how a wrapper reads images. Outputs of other models do without.
inline constexpr std::array<const char*, 4> kProcessorFiles = {
    "preprocessor_config.json", "processor_config.json", "video_preprocessor_config.json",
    "image_processor_config.json"};

/// Companion files that hold a vocabulary; the others of JSON hold settings.
inline constexpr std::array<const char*, 3> kVocabularyFiles = {"tokenizer.json", "vocab.json",
                                                                "tekken.json"};

/// Companion files whose known keys alone go to an output (job/model/config_keys.h):
/// transformers may load what others name.
inline constexpr std::array<const char*, 2> kFilteredFiles = {"tokenizer_config.json",
                                                              "generation_config.json"};
/// Limit of a companion file; vocabularies of a million tokens take a tenth of it.
inline constexpr uint64_t kMaxCompanionBytes = uint64_t{1} << 30;

/// Throws InputError if one of the companion files exists but is not a regular file, or if one that
/// holds settings is not a JSON object. Then a job fails at its start and not at its end, and
/// programs that read these files name the one that is wrong.
void check_companions(const std::filesystem::path& model_dir);

}  // namespace dotresize
