#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace dotresize {

/// Parses untrusted JSON text whose root must be an object. Throws InputError, starting with
/// `origin`, for a syntax error (with its place), a duplicate key, a root that is not an object, or
/// nesting deeper than 64.
nlohmann::json parse_json_object(const std::string& text, const std::string& origin);

}  // namespace dotresize
