#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "base/files/confinement.h"
#include "job/model/model_config.h"

namespace dotresize {

/// Returns tokenizer.json of a directory: empty if it cannot be read, which those say that need it.
std::string tokenizer_text(const std::filesystem::path& dir,
                           const Confinement& confinement = Confinement::of_process());

/// Returns the steps that a class of transformers 5 builds in place of those of tokenizer.json:
/// {"normalizer", "pre_tokenizer"}, as in such a file. `settings`: tokenizer_config.json. Null for
/// kTokenizersBackend, which takes those of the file, and for classes of no supported family.
nlohmann::json built_steps(std::string_view class_name, const nlohmann::json& settings);

/// Returns a sentence on a model whose tokenizer.json splits texts otherwise than the class that
/// transformers 5 takes for it: for those that give texts. Empty: it does not, or that is not
/// known. A file that is no tokenizer is left to those that need one.
std::string warning_about_tokenizer(const std::filesystem::path& dir, const ModelConfig& config);

}  // namespace dotresize
