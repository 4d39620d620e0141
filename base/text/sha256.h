#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <stop_token>
#include <string>
#include <vector>

namespace dotresize {

/// Returns SHA-256 as 64 lower-case hexadecimal digits. Throws std::runtime_error if OpenSSL lacks
/// it.
std::string sha256_of_bytes(const void* data, size_t size);

class InputFile;
/// Returns the SHA-256 of the file's content, read now. Throws as below.
std::string sha256_of_file(const InputFile& file, const std::stop_token& stop = {});

/// Returns the SHA-256 of a file's content. Throws InputError if it cannot be read, and
/// std::runtime_error if `stop` is requested meanwhile.
std::string sha256_of_file(const std::filesystem::path& path, const std::stop_token& stop = {});

/// File in a model directory with the hashes of all other files, as sha256sum prints them.
inline constexpr char kSumsFile[] = "SHA256SUMS";
inline constexpr uint64_t kMaxSumsBytes = 16 << 20;

/// True if `path` is relative and in normal form, and does not begin with "..".
bool stays_inside(const std::string& path);

/// Parses lines "HASH  PATH" into SHA-256 by path. Malformed lines, paths that do not stay inside
/// and repeated paths become problems.
std::map<std::string, std::string> parse_sha256_sums(const std::string& text,
                                                     std::vector<std::string>& problems);

}  // namespace dotresize
