#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "job/model/model_config.h"

namespace dotresize {

/// `auto_map` of a compressed model: transformers' class names, with the classes in the output's
/// code. Without maps this is modeling_layer_sizes.py, which derives them from those of the family.
nlohmann::json custom_code_map(const ModelConfig& output);

/// config.json of `output`: the source's keys that are kept (kept_config), sorted, with the changed
/// values. Rotary settings and dtype are written in the dialects of transformers 4 and 5. In a
/// wrapper these are the keys of its text part, and all others stay. Ends with a newline.
std::string output_config_json(const std::string& source_config_json, const ModelConfig& output);

}  // namespace dotresize
