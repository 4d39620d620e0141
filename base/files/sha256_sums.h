#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace dotresize {

/// File in a model directory with the hashes of all other files, as sha256sum prints them.
inline constexpr char kSumsFile[] = "SHA256SUMS";
inline constexpr uint64_t kMaxSumsBytes = 16 << 20;

/// True if `path` is relative and in normal form, and does not begin with "..".
bool stays_inside(const std::string& path);

/// Parses lines "HASH  PATH" into SHA-256 by path. Malformed lines, paths that do not stay inside
/// and repeated paths become problems.
std::map<std::string, std::string> parse_sha256_sums(const std::string& text,
                                                     std::vector<std::string>& problems);

/// Returns one line "HASH  PATH".
std::string sha256_line(const std::string& sha256, const std::string& path);

}  // namespace dotresize
