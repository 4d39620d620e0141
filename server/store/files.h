#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "base/files/unique_fd.h"

namespace dotresize {

/// Calls write_file_atomically() with mode 0600. Throws std::system_error.
void write_private_file(const std::filesystem::path& path, std::string_view content);

/// Throws InputError with the field `option` unless the file exists and is closed to other users.
void require_private_file(const std::string& option, const std::filesystem::path& file);

/// Reads at most `max_bytes` of the file; nullopt if it does not exist. Throws std::system_error.
std::optional<std::string> read_file_start(const std::filesystem::path& path, size_t max_bytes);

/// Reads up to `max_bytes` from `offset`; empty at the end and if the file does not exist.
std::string read_chunk(const std::filesystem::path& path, int64_t offset, size_t max_bytes);

/// Reads the last bytes of the file, at most `max_bytes` and none before `from`; empty if the file
/// does not exist.
std::string read_tail(const std::filesystem::path& path, int64_t from, size_t max_bytes);

enum class LockedFile {
  kRegular,    ///< created with mode 0600 if it is missing
  kDirectory,  ///< must exist
};

/// Takes the exclusive flock of `path`. It is held until every copy of the descriptor, which is
/// close-on-exec, is closed. Returns an empty descriptor if another process holds the lock, or if
/// there is no such directory (a symbolic link is not one). Throws std::system_error.
UniqueFd try_lock_file(const std::filesystem::path& path, LockedFile kind = LockedFile::kRegular);

/// Removes the files in and below `dir` that were last modified more than `age` ago. Skips files
/// that cannot be removed.
void remove_old_files(const std::filesystem::path& dir, std::chrono::seconds age);

[[noreturn]] void throw_errno(const std::string& what);

}  // namespace dotresize
