#pragma once

#include <sys/types.h>

#include <filesystem>
#include <string>
#include <vector>

#include "base/files/unique_fd.h"

namespace dotresize {

/// Opens `relative` beneath the open directory `dir`, refusing symbolic links on the way (openat2).
/// On failure the result is empty and errno is set: ELOOP for a link, EXDEV for a path out of
/// `dir`. Throws std::runtime_error if the kernel has no openat2.
UniqueFd open_beneath(int dir, const std::filesystem::path& relative, int flags, mode_t mode = 0);

/// Returns the path of an open descriptor, for functions that take paths. It leads to the opened
/// file even if another file has its name now. Files below it are opened by open_beneath().
std::filesystem::path path_of_descriptor(int fd);

/// Returns `path` for people: a descriptor's path becomes its current name.
std::string shown_path(const std::filesystem::path& path);

/// Limits the files that a user may name to a set of directories. Copies are cheap.
class Confinement {
 public:
  /// Sets no limits.
  Confinement() = default;
  explicit Confinement(const std::vector<std::filesystem::path>& roots);

  /// Returns the limits of this process, set by confine_process(); at first there are none.
  static const Confinement& of_process();

  /// Opens a path as open(2) does, with O_CLOEXEC. With limits, the target must lie beneath a root:
  /// links are resolved first, and the result is opened without following any, so a link that
  /// appears in between is refused. On failure the result is empty and errno is set. Throws
  /// InputError if the path leads out of the roots.
  UniqueFd open(const std::filesystem::path& path, int flags, mode_t mode = 0) const;

  /// Creates the directory and its missing parents, and opens it. On failure the result is empty
  /// and errno is set. Throws as open(), and std::filesystem::filesystem_error.
  UniqueFd make_directories(const std::filesystem::path& path) const;

 private:
  struct Place {
    std::filesystem::path root;
    std::filesystem::path way;  ///< path relative to `root`, without links
  };
  /// Throws InputError, showing the path as it was `named`, if it lies in no root.
  Place place_of(const std::filesystem::path& target, const std::filesystem::path& named) const;

  std::vector<std::filesystem::path> roots_;  ///< canonical
};

/// Limits this process to these roots when it opens paths named by users. Call before threads
/// start.
void confine_process(const std::vector<std::filesystem::path>& roots);

/// Opens `directory` and from then on takes every path that begins with `name` for one below it:
/// Confinement and all that opens files through it find the file below the descriptor, without
/// following links, whatever has its name now. For a program whose starter holds the directory
/// open: `directory` is the path of the starter's descriptor. Call once, before threads start.
/// Throws InputError if the directory cannot be opened.
void hold_directory(const std::filesystem::path& name, const std::filesystem::path& directory);

/// Returns the path by which other processes of this user open a descriptor of this process.
std::filesystem::path path_for_others(int fd);

}  // namespace dotresize
