#pragma once

#include <sys/types.h>

#include <filesystem>

#include "base/unique_fd.h"

namespace dotresize {

/// A directory that is open: what somebody puts under its name later does not lead elsewhere.
/// Entries are made, renamed and removed through its descriptor.
class PinnedDirectory {
 public:
  /// None.
  PinnedDirectory() = default;
  explicit PinnedDirectory(UniqueFd fd) : fd_(std::move(fd)) {}
  /// The directory that a canonical absolute path names, opened without following a symbolic link
  /// anywhere on the way. None if there is no such directory, or a link is on the way.
  explicit PinnedDirectory(const std::filesystem::path& path);

  explicit operator bool() const { return static_cast<bool>(fd_); }
  int descriptor() const { return fd_.get(); }
  /// For functions that take paths: always of the directory that was opened.
  std::filesystem::path path() const;
  /// The directory of this name in it, for reading; none, with errno, if it is a link or no
  /// directory.
  PinnedDirectory enter(const std::filesystem::path& name) const;
  /// Whether `name` in it is `directory`.
  bool holds(const std::filesystem::path& name, const PinnedDirectory& directory) const;
  /// Whether the user of this process owns it.
  bool is_own() const;

 private:
  UniqueFd fd_;
};

}  // namespace dotresize
