#pragma once

#include <sys/types.h>

#include <filesystem>
#include <system_error>
#include <vector>

#include "base/files/unique_fd.h"

namespace dotresize {

/// An open directory: replacing its name later does not redirect it. Entries are made, renamed and
/// removed through its descriptor.
class PinnedDirectory {
 public:
  /// Holds no directory.
  PinnedDirectory() = default;
  explicit PinnedDirectory(UniqueFd fd) : fd_(std::move(fd)) {}
  /// Opens the directory at a canonical absolute path. Holds none if there is no such directory, or
  /// a symbolic link is on the way.
  explicit PinnedDirectory(const std::filesystem::path& path);

  explicit operator bool() const { return static_cast<bool>(fd_); }
  int descriptor() const { return fd_.get(); }
  /// Returns a path for functions that take paths; it always leads to the opened directory.
  std::filesystem::path path() const;
  /// Opens the subdirectory `name` for reading. On failure (a link, or not a directory) the result
  /// is empty and errno is set.
  PinnedDirectory enter(const std::filesystem::path& name) const;
  /// True if its entry `name` is `directory`.
  bool holds(const std::filesystem::path& name, const PinnedDirectory& directory) const;
  /// True if the user of this process owns it.
  bool is_own() const;

 private:
  UniqueFd fd_;
};

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

/// Reads all entries of a directory, so that the caller may remove them. Sets `error` if the
/// directory cannot be read, and returns the entries read until then; a range-for over
/// directory_iterator would throw there.
std::vector<std::filesystem::directory_entry> entries_of(const std::filesystem::path& dir,
                                                         std::error_code& error);

}  // namespace dotresize
