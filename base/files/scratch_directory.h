#pragma once

#include <filesystem>

namespace dotresize {

/// A new directory below the system's directory for temporary files. Only this user can enter it.
/// The destructor removes it with its content.
class ScratchDirectory {
 public:
  /// Throws std::runtime_error with errno's text.
  ScratchDirectory();
  ~ScratchDirectory();
  ScratchDirectory(const ScratchDirectory&) = delete;
  ScratchDirectory& operator=(const ScratchDirectory&) = delete;

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace dotresize
