#pragma once

#include <cstddef>
#include <filesystem>
#include <stop_token>
#include <string>

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

}  // namespace dotresize
