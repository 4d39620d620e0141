#pragma once

#include <sys/types.h>

#include <filesystem>
#include <string_view>

namespace dotresize {

/// Writes a small file whole or not at all: to a temporary name beside it, fsync, rename, fsync of
/// the directory. `permissions` are those of a new file, less the umask. Throws std::system_error
/// naming the file, and leaves no temporary file then.
void write_file_atomically(const std::filesystem::path& path, std::string_view content,
                           mode_t permissions = 0644);

/// fsync of a directory, so that the names in it are durable. Throws std::system_error.
void sync_directory(const std::filesystem::path& dir);

}  // namespace dotresize
