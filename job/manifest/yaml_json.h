#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace dotresize {

/// Converts a YAML map to JSON. Plain scalars that look like null, booleans (true, false) or
/// numbers become these, all others texts. Throws InputError, starting with `origin`, for
/// everything that load_yaml (job/spec/yaml_file.h) refuses, for a key that is repeated or not a
/// text, and for more than 100000 values (an alias counts like its target) or 64 levels.
nlohmann::ordered_json json_of_yaml(const std::string& text, const std::string& origin);

/// Writes the content as one YAML document for people; it ends with a newline.
std::string yaml_of_json(const nlohmann::ordered_json& document);

}  // namespace dotresize
