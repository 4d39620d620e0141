#pragma once

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <string_view>

#include "base/unique_fd.h"

namespace dotresize {

/// A file that is being written. Every failure is a std::system_error that names the file.
class OutputFile {
 public:
  enum class Mode { kTruncate, kMustNotExist, kMustExist };

  /// Creates the file with these permissions, less the umask, or opens the one that is there. Does
  /// not follow a symbolic link.
  OutputFile(std::filesystem::path path, Mode mode, mode_t permissions = 0644);

  const std::filesystem::path& path() const { return path_; }
  /// Sets the size and takes the space on the disk, if the file system can, so that a full disk
  /// shows now.
  void reserve(uint64_t size);
  /// Writes all of it, at `offset`.
  void write(const char* data, uint64_t size, uint64_t offset);
  /// Flushes to the disk and closes.
  void close();

 private:
  [[noreturn]] void fail(const char* action) const;

  std::filesystem::path path_;
  UniqueFd fd_;
};

/// Writes a small file whole or not at all: to a temporary name beside it, fsync, rename, fsync of
/// the directory. `permissions` are those of a new file, less the umask. Throws std::system_error
/// naming the file, and leaves no temporary file then.
void write_file_atomically(const std::filesystem::path& path, std::string_view content,
                           mode_t permissions = 0644);

/// Whether the file is what write_file_atomically() of a file named `name` has left in its
/// directory: it was killed.
bool is_left_of(const std::filesystem::directory_entry& file, std::string_view name);

/// fsync of a directory, so that the names in it are durable. Throws std::system_error.
void sync_directory(const std::filesystem::path& dir);

}  // namespace dotresize
