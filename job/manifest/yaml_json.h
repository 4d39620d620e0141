#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace dotresize {

/// The map that YAML text has, as JSON: plain scalars that look so are null, booleans (true, false)
/// or numbers, all others are texts. Throws InputError, starting with `origin`, for what load_yaml
/// (job/spec/yaml_file.h) refuses, for a key that is given twice or is no text, and for more than
/// 100000 values (an alias counts as what it stands for) or 64 levels of them.
nlohmann::ordered_json json_of_yaml(const std::string& text, const std::string& origin);

/// One YAML document with that content, for people; it ends with a newline.
std::string yaml_of_json(const nlohmann::ordered_json& document);

}  // namespace dotresize
