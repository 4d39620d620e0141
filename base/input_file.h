#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "base/unique_fd.h"

namespace dotresize {

/// A regular file, open for reading.
class InputFile {
 public:
  /// Follows symbolic links. Throws InputError for what is not there, not readable, or not a
  /// regular file.
  explicit InputFile(const std::string& path);

  const std::string& path() const { return path_; }
  int descriptor() const { return fd_.get(); }
  uint64_t size() const { return size_; }
  /// Reads exactly `count` bytes at `offset`. Throws InputError if the file ends before.
  void read(char* to, uint64_t count, uint64_t offset) const;

 private:
  std::string path_;
  UniqueFd fd_;
  uint64_t size_ = 0;
};

/// The bytes of a regular file. Throws InputError, naming the file, if it is missing, is not a
/// regular file, cannot be read, or is larger than `max_bytes` (checked before it is read).
std::string read_whole_file(const std::filesystem::path& path, uint64_t max_bytes);

}  // namespace dotresize
