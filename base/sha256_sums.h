#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace dotresize {

/// In a model directory: the hashes of all its other files, as sha256sum prints them.
inline constexpr char kSumsFile[] = "SHA256SUMS";
inline constexpr uint64_t kMaxSumsBytes = 16 << 20;

/// Whether it is a relative path in its normal form that does not begin with "..".
bool stays_inside(const std::string& path);

/// SHA-256 by path of lines "HASH  PATH"; those that are not of that form, or name a path that does
/// not stay inside, become problems.
std::map<std::string, std::string> parse_sha256_sums(const std::string& text,
                                                     std::vector<std::string>& problems);

/// One such line.
std::string sha256_line(const std::string& sha256, const std::string& path);

}  // namespace dotresize
