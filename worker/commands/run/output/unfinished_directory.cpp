#include "worker/commands/run/output/unfinished_directory.h"

#include <fcntl.h>
#include <sys/file.h>

#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <utility>

#include "base/files/confinement.h"
#include "base/files/file_changes.h"
#include "base/files/partial_path.h"

namespace dotresize {
namespace fs = std::filesystem;
namespace {

/// Name of the complete directory; "out/" counts as "out".
fs::path complete_name(const fs::path& path) {
  return (path.has_filename() ? path : path.parent_path()).filename();
}

PinnedDirectory open_parent(const fs::path& path, UnfinishedDirectory::Parent parent) {
  const fs::path name = fs::absolute(partial_path(path)).parent_path();
  const Confinement& confinement = Confinement::of_process();
  return PinnedDirectory(parent == UnfinishedDirectory::Parent::kMake
                             ? confinement.make_directories(name)
                             : confinement.open(name, O_RDONLY | O_DIRECTORY));
}

}  // namespace

InputError cannot_write(const std::string& key, const fs::path& path, int error) {
  return InputError(key, "cannot write " + path.string() + ": " + std::strerror(error));
}

UnfinishedDirectory::UnfinishedDirectory(fs::path path, std::string key, Parent parent)
    : path_(std::move(path)),
      key_(std::move(key)),
      parent_(open_parent(path_, parent)),
      name_(complete_name(path_)),
      partial_name_(partial_path(name_)) {
  if (!parent_) throw cannot_write(key_, partial_path(path_), errno);
}

void UnfinishedDirectory::lock() {
  // The holder of the lock renames or removes the directory at its end. A lock on a directory that
  // has lost its name is worthless, so try again.
  do {
    try {
      files::create_directory(beside(partial_name_), 0755);
    } catch (const std::system_error& failure) {
      throw cannot_write(key_, partial_path(path_), failure.code().value());
    }
    enter();
    if (::flock(directory_.descriptor(), LOCK_EX | LOCK_NB) != 0) {
      throw OutputBusy(key_, "another job is writing " + partial_path(path_).string());
    }
  } while (!parent_.holds(partial_name_, directory_));
}

void UnfinishedDirectory::enter() {
  directory_ = parent_.enter(partial_name_);
  if (!directory_) throw cannot_write(key_, partial_path(path_), errno);
  if (directory_.is_own()) return;
  throw InputError(key_, partial_path(path_).string() +
                             " belongs to another user: remove it or choose another path");
}

fs::path UnfinishedDirectory::beside(const fs::path& name) const { return parent_.path() / name; }

void UnfinishedDirectory::require_name(const fs::path& name) const {
  if (parent_.holds(name, directory_)) return;
  throw std::runtime_error(shown_path(beside(name)) +
                           " is not what this job wrote: something else has replaced it");
}

}  // namespace dotresize
