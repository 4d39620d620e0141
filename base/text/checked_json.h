#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

namespace dotresize {

/// Parses untrusted JSON text whose root must be an object. Throws InputError, starting with
/// `origin`, for a syntax error (with its place), a duplicate key, a root that is not an object, or
/// nesting deeper than 64.
nlohmann::json parse_json_object(const std::string& text, const std::string& origin);

/// Reads and parses a regular file of at most `max_bytes`; its path is the origin.
nlohmann::json read_json_object(const std::filesystem::path& file, uint64_t max_bytes);

/// Returns the parser's description of an error, without its prefix and the text it read last. That
/// text may be long, not UTF-8, or secret from the reader of the message.
std::string json_fault(const nlohmann::json::exception& error);

}  // namespace dotresize
