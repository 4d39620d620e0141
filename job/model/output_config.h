#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "job/model/model_config.h"

namespace dotresize {

/// `auto_map` of a compressed model: the classes that lie beside its weights, by transformers'
/// names.
nlohmann::json custom_code_map();

/// config.json of `output`: the source's keys, sorted, with those changed that differ. Rotary
/// settings and dtype are written in the dialects of transformers 4 and 5. Ends with a newline.
std::string output_config_json(const std::string& source_config_json, const ModelConfig& output);

}  // namespace dotresize
