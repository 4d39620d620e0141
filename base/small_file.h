#pragma once

#include <cstddef>
#include <filesystem>
#include <string>

namespace dotresize {

/// The bytes of a regular file. Throws InputError, naming the file, where it is missing, is not a
/// regular file, cannot be read, or is larger than `max_bytes` (checked before it is read).
std::string read_small_file(const std::filesystem::path& path, std::size_t max_bytes);

}  // namespace dotresize
