#pragma once

#include <filesystem>
#include <string>

#include "base/files/confinement.h"
#include "job/model/model_config.h"

namespace dotresize {

/// Reads and checks `model_dir`/config.json. Throws InputError for a missing or malformed file, an
/// unsupported architecture or variant (with its name and the reason), or contradictory values.
ModelConfig read_model_config(const std::filesystem::path& model_dir,
                              const Confinement& confinement = Confinement::of_process());

/// Text version of read_model_config; `origin` names the text in errors.
ModelConfig parse_model_config(const std::string& json_text, const std::string& origin);

}  // namespace dotresize
