#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "base/unique_fd.h"

namespace dotresize {

/// write_file_atomically for the server's user alone: mode 0600. Throws std::system_error.
void write_private_file(const std::filesystem::path& path, std::string_view content);

/// Throws InputError, in the name of `option`, unless the file is there and closed to other users.
void require_private_file(const std::string& option, const std::filesystem::path& file);

/// At most `max_bytes` of the file; nothing if it does not exist. Throws std::system_error.
std::optional<std::string> read_file_start(const std::filesystem::path& path, size_t max_bytes);

/// Up to `max_bytes` from `offset`; empty at the end and if the file does not exist.
std::string read_chunk(const std::filesystem::path& path, int64_t offset, size_t max_bytes);

/// The last bytes of the file, at most `max_bytes` and none before `from`; empty if there is no
/// file.
std::string read_tail(const std::filesystem::path& path, int64_t from, size_t max_bytes);

/// Takes the exclusive flock of `path` (created, 0600, close-on-exec), which is held until every
/// copy of the descriptor is closed. None if another process holds it. Throws std::system_error.
UniqueFd try_lock_file(const std::filesystem::path& path);

/// The same for an existing directory. None also if there is no directory of this name (a
/// symbolic link is none).
UniqueFd try_lock_directory(const std::filesystem::path& path);

/// Removes the files in and below `dir` that were last modified longer ago, as far as it can.
void remove_old_files(const std::filesystem::path& dir, std::chrono::seconds age);

[[noreturn]] void throw_errno(const std::string& what);

}  // namespace dotresize
