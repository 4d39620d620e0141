#include "base/files/directory.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <string>

#include "base/files/confinement.h"

namespace dotresize {
namespace fs = std::filesystem;

PinnedDirectory::PinnedDirectory(const fs::path& path) {
  const UniqueFd root(::open("/", O_PATH | O_DIRECTORY | O_CLOEXEC));
  const fs::path way = path.relative_path();
  if (root) fd_ = open_beneath(root.get(), way.empty() ? "." : way, O_PATH | O_DIRECTORY);
}

// Without the dot, the path itself would be a link.
fs::path PinnedDirectory::path() const { return path_of_descriptor(fd_.get()) / "."; }

PinnedDirectory PinnedDirectory::enter(const fs::path& name) const {
  return PinnedDirectory(open_beneath(fd_.get(), name, O_RDONLY | O_DIRECTORY));
}

bool PinnedDirectory::holds(const fs::path& name, const PinnedDirectory& directory) const {
  struct stat named {};
  struct stat opened {};
  return ::fstatat(fd_.get(), name.c_str(), &named, AT_SYMLINK_NOFOLLOW) == 0 &&
         ::fstat(directory.descriptor(), &opened) == 0 && named.st_dev == opened.st_dev &&
         named.st_ino == opened.st_ino;
}

bool PinnedDirectory::is_own() const {
  struct stat status {};
  return ::fstat(fd_.get(), &status) == 0 && status.st_uid == ::geteuid();
}

ScratchDirectory::ScratchDirectory() {
  std::string name = (fs::temp_directory_path() / "dotresize-XXXXXX").string();
  if (::mkdtemp(name.data()) == nullptr) {
    throw std::runtime_error(name + ": " + std::strerror(errno));
  }
  path_ = name;
}

ScratchDirectory::~ScratchDirectory() {
  std::error_code left_behind;  // a leftover temporary file is harmless
  fs::remove_all(path_, left_behind);
}

std::vector<fs::directory_entry> entries_of(const fs::path& dir, std::error_code& error) {
  std::vector<fs::directory_entry> entries;
  for (fs::directory_iterator entry(dir, error); !error && entry != fs::directory_iterator();
       entry.increment(error)) {
    entries.push_back(*entry);
  }
  return entries;
}

}  // namespace dotresize
