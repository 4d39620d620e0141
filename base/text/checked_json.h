#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

namespace dotresize {

/// Parses untrusted JSON text whose root must be an object. Throws InputError, starting with
/// `origin`, for a syntax error (with its place), a duplicate key, a root that is not an object, or
/// nesting deeper than 64.
nlohmann::json parse_json_object(const std::string& text, const std::string& origin);

/// Puts quotes around the first bare NaN, Infinity and -Infinity, which Python writes as numbers
/// and JSON does not have: a reader that needs a number there refuses them. The parser tells where
/// they are.
std::string with_quoted_non_finite(std::string text);

/// Reads and parses a regular file of at most `max_bytes`; its path is the origin.
nlohmann::json read_json_object(const std::filesystem::path& file, uint64_t max_bytes);

/// Returns the parser's description of an error, without its prefix and the text it read last. That
/// text may be long, not UTF-8, or secret from the reader of the message.
std::string json_fault(const nlohmann::json::exception& error);

/// Sets the field, which is absent if there is no value.
template <class Value>
void set_if(nlohmann::json& object, const char* key, const std::optional<Value>& value) {
  if (value) object[key] = *value;
}

/// Reads a field that may be absent, or null: `value` then stays as it is.
template <class Value>
void get_if(const nlohmann::json& object, const char* key, std::optional<Value>& value) {
  if (object.contains(key) && !object.at(key).is_null()) value = object.at(key).get<Value>();
}

}  // namespace dotresize
