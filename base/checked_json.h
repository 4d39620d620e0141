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

/// The same from a regular file of at most `max_bytes`, whose path is the origin.
nlohmann::json read_json_object(const std::filesystem::path& file, uint64_t max_bytes);

/// What the parser says of a fault, without its own prefix and without what it has read last: that
/// may be long, not even UTF-8, or nothing that whoever reads the message may see.
std::string json_fault(const nlohmann::json::exception& error);

}  // namespace dotresize
