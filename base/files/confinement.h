#pragma once

#include <sys/types.h>

#include <filesystem>
#include <string>
#include <vector>

#include "base/unique_fd.h"

namespace dotresize {

/// Opens `relative` beneath the open directory `dir` without a symbolic link anywhere on the way
/// (openat2). None, with errno, if it cannot: ELOOP for a link, EXDEV for a way out of `dir`.
/// Throws std::runtime_error if the kernel has no openat2.
UniqueFd open_beneath(int dir, const std::filesystem::path& relative, int flags, mode_t mode = 0);

/// The path of an open descriptor, for functions that take paths: always of what was opened,
/// whatever lies under its name by now. Every file below it is opened by open_beneath().
std::filesystem::path path_of_descriptor(int fd);

/// `path` for people: that of a descriptor is written as the name that it has now.
std::string shown_path(const std::filesystem::path& path);

/// Directories in which all files lie that a user may name. Copies are cheap.
class Confinement {
 public:
  /// No limits.
  Confinement() = default;
  explicit Confinement(const std::vector<std::filesystem::path>& roots);

  /// The limits of this process, set by confine_process(); none at first.
  static const Confinement& of_process();

  /// Opens a path as open(2) does, with O_CLOEXEC; with limits beneath one of the roots: links are
  /// followed before, and where they lead is opened without any, so a link that is put there
  /// meanwhile is refused. None, with errno, if it cannot. Throws InputError if the path leads out
  /// of the roots.
  UniqueFd open(const std::filesystem::path& path, int flags, mode_t mode = 0) const;

  /// The directory, made with those above it if it is missing, and opened; none, with errno, if it
  /// cannot. Throws as open(), and std::filesystem::filesystem_error.
  UniqueFd make_directories(const std::filesystem::path& path) const;

 private:
  struct Place {
    std::filesystem::path root;
    std::filesystem::path way;  ///< from there, without links
  };
  /// Throws InputError with the path as it was `named` if it lies in no root.
  Place place_of(const std::filesystem::path& target, const std::filesystem::path& named) const;

  std::vector<std::filesystem::path> roots_;  ///< canonical
};

/// From now on this process opens what users name within these roots alone. Before it has threads.
void confine_process(const std::vector<std::filesystem::path>& roots);

}  // namespace dotresize
