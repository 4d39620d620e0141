#pragma once

#include <cstddef>
#include <filesystem>
#include <string>

namespace dotresize {

/// SHA-256 in 64 lower-case hexadecimal digits. Throws std::runtime_error if OpenSSL has none.
std::string sha256_of_bytes(const void* data, size_t size);

/// That of a file's content. Throws InputError if it cannot be read.
std::string sha256_of_file(const std::filesystem::path& path);

}  // namespace dotresize
