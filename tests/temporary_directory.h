#pragma once

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <system_error>

namespace dotresize {

/// Writes `content` unchanged, for inputs that our own writers would refuse to make.
inline void put_file(const std::filesystem::path& path, const std::string& content) {
  std::ofstream out;
  out.exceptions(std::ios::badbit | std::ios::failbit);
  out.open(path, std::ios::binary);
  out << content;
}

/// Returns the content of a file.
inline std::string file_bytes(const std::filesystem::path& path) {
  std::ifstream in;
  in.exceptions(std::ios::badbit | std::ios::failbit);
  in.open(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

/// A new directory, removed with everything in it at the end of a test.
class TemporaryDirectory {
 public:
  TemporaryDirectory() {
    std::string name = (std::filesystem::temp_directory_path() / "dotresize-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) {
      throw std::system_error(errno, std::generic_category(), name);
    }
    path_ = name;
  }
  ~TemporaryDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path operator/(const std::string& name) const { return path_ / name; }
  /// Writes a file and returns its path.
  std::filesystem::path write(const std::string& name, const std::string& content) const {
    put_file(path_ / name, content);
    return path_ / name;
  }

 private:
  std::filesystem::path path_;
};

}  // namespace dotresize
