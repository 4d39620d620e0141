#pragma once

#include <sys/types.h>

#include <cstdint>
#include <filesystem>

#include "base/unique_fd.h"

namespace dotresize {

/// A file that is being written. Every failure is a std::system_error that names the file.
class OutputFile {
 public:
  enum class Mode { kTruncate, kMustNotExist };

  /// Creates the file with these permissions, less the umask. Does not follow a symbolic link.
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

}  // namespace dotresize
