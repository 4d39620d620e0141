#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "base/files/confinement.h"
#include "job/model/model_config.h"

namespace dotresize {

/// Class of transformers 5 that reads tokenizer.json as it stands. Others build normalizer and
/// pre-tokenizer anew. transformers 4 reads the file as it stands whatever the class.
inline constexpr std::string_view kTokenizersBackend = "TokenizersBackend";
/// Its name that transformers 4 knows too.
inline constexpr std::string_view kTokenizersBackendInBoth = "PreTrainedTokenizerFast";

/// Class of tokenizer that transformers 5 takes for a model_type.
struct FamilyTokenizer {
  /// The class if none is named. Empty: the type has none, and it is kTokenizersBackend.
  std::string_view class_name = {};
  bool ignores_named = false;  ///< it is that class whatever is named
};

/// Choice for a model_type that takes tokenizer.json as it stands, whatever class is named.
inline constexpr FamilyTokenizer kFileAsItStands{kTokenizersBackend, true};

/// Returns the class that transformers 5 takes, without "Fast". `named`: `tokenizer_class` of
/// tokenizer_config.json or else of config.json; empty if there is none. `byte_level`: see
/// TokenizerForm.
std::string tokenizer_class(const FamilyTokenizer& family, std::string_view named, bool byte_level);

/// Returns tokenizer_config.json of a directory: an empty object if it is absent or no JSON, which
/// check_companions names.
nlohmann::json tokenizer_settings(const std::filesystem::path& dir,
                                  const Confinement& confinement = Confinement::of_process());

/// Reads what decides the class for the model `config` of `dir`.
std::optional<TokenizerForm> read_tokenizer_form(
    const std::filesystem::path& dir, const ModelConfig& config,
    const Confinement& confinement = Confinement::of_process());

/// Returns true if transformers 5 takes the source's class for a stock output of the family too,
/// once it is named.
bool keeps_tokenizer_class(const ModelConfig& source, std::string_view family);

/// Names in an output's tokenizer_config.json the class that transformers 5 takes for its source,
/// if it would take another one or transformers 4 would find none.
void name_tokenizer_class(nlohmann::json& tokenizer_config, const ModelConfig& output);

}  // namespace dotresize
