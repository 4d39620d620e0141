#pragma once

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <string_view>

#include "base/files/confinement.h"
#include "base/files/unique_fd.h"

namespace dotresize {

/// A file that is being written. Every failure throws std::system_error naming the file.
class OutputFile {
 public:
  enum class Mode { kTruncate, kMustNotExist, kMustExist };

  /// Creates the file with these permissions, less the umask, or opens an existing one, as `mode`
  /// says. Does not follow a symbolic link.
  OutputFile(std::filesystem::path path, Mode mode, mode_t permissions = 0644,
             const Confinement& confinement = Confinement::of_process());

  const std::filesystem::path& path() const { return path_; }
  /// Sets the size and reserves the space on disk, if the file system can, so that a full disk
  /// shows early.
  void reserve(uint64_t size);
  /// Writes all `size` bytes at `offset`.
  void write(const char* data, uint64_t size, uint64_t offset);
  /// Flushes to disk and closes.
  void close();

 private:
  [[noreturn]] void fail(const char* action) const;

  std::filesystem::path path_;
  UniqueFd fd_;
};

/// Follows the file's name in that of its temporary file.
inline constexpr char kTemporaryMark[] = ".tmp-";

/// Writes a small file whole or not at all: a temporary file beside it, fsync, rename, fsync of the
/// directory. `permissions`: those of a new file, less the umask. On failure throws
/// std::system_error naming the file, and leaves no temporary file.
void write_file_atomically(const std::filesystem::path& path, std::string_view content,
                           mode_t permissions = 0644,
                           const Confinement& confinement = Confinement::of_process());

/// Writes a file that a user has named on the command line: as write_file_atomically(), but the
/// file that a link leads to is replaced, not the link, and devices and pipes are written to.
void write_for_user(const std::filesystem::path& path, std::string_view content);

/// Flushes a directory, so that its entries are durable. Throws std::system_error.
void sync_directory(const std::filesystem::path& dir,
                    const Confinement& confinement = Confinement::of_process());

}  // namespace dotresize
