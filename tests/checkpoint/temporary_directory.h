#pragma once

#include <filesystem>
#include <string>

namespace dotresize {

/// A new directory that is removed, with all that is in it, at the end of a test.
class TemporaryDirectory {
 public:
  TemporaryDirectory();
  ~TemporaryDirectory();
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path operator/(const std::string& name) const { return path_ / name; }

 private:
  std::filesystem::path path_;
};

/// Writes a file as it is, for inputs that our own writer would refuse to make.
void put_file(const std::filesystem::path& path, const std::string& content);

/// The bytes of a file.
std::string file_bytes(const std::filesystem::path& path);

}  // namespace dotresize
