#pragma once

#include <cstdint>
#include <string>

namespace dotresize {

/// A regular file, open for reading.
class InputFile {
 public:
  /// Follows symbolic links. Throws InputError for what is not there, not readable, or not a
  /// regular file.
  explicit InputFile(const std::string& path);
  ~InputFile();
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  const std::string& path() const { return path_; }
  int descriptor() const { return descriptor_; }
  uint64_t size() const { return size_; }
  /// Reads exactly `count` bytes at `offset`. Throws InputError where the file ends before.
  void read(char* to, uint64_t count, uint64_t offset) const;

 private:
  std::string path_;
  int descriptor_ = -1;
  uint64_t size_ = 0;
};

/// The whole of a file of at most `max_bytes`. Throws InputError for a larger one.
std::string read_whole_file(const std::string& path, uint64_t max_bytes);

}  // namespace dotresize
