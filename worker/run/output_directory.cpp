#include "worker/run/output_directory.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <string>
#include <utility>

#include "job/errors.h"
#include "worker/checkpoint/writer.h"

namespace dotresize {
namespace fs = std::filesystem;
namespace {

fs::path with_suffix(const fs::path& path, const char* suffix) {
  fs::path name = path.has_filename() ? path : path.parent_path();
  name += suffix;
  return name;
}

std::runtime_error system_failure(const std::string& what) {
  return std::runtime_error(what + ": " + std::strerror(errno));
}

bool same_file(int fd, const fs::path& path) {
  struct stat opened {};
  struct stat named {};
  return ::fstat(fd, &opened) == 0 && ::stat(path.c_str(), &named) == 0 &&
         opened.st_dev == named.st_dev && opened.st_ino == named.st_ino;
}

/// The directory that the output and its companions live in; it is made where it is missing.
const fs::path& with_parent(const fs::path& path) {
  std::error_code error;
  fs::create_directories(fs::absolute(path).parent_path(), error);
  if (error)
    throw InputError("output.path: cannot create the folder of " + path.string() + ": " +
                     error.message());
  return path;
}

}  // namespace

fs::path partial_path(const fs::path& path) { return with_suffix(path, ".partial"); }

FileLock::FileLock(fs::path path) : path_(std::move(path)) {
  // The holder removes the file when it is done: a lock on a file that has lost its name is none.
  while (fd_ < 0) {
    fd_ = ::open(path_.c_str(), O_CREAT | O_RDWR | O_CLOEXEC | O_NOFOLLOW, 0644);
    if (fd_ < 0) {
      throw InputError("output.path: cannot write " + path_.string() + ": " + std::strerror(errno));
    }
    if (::flock(fd_, LOCK_EX | LOCK_NB) != 0) {
      ::close(fd_);
      throw InputError("output.path: another job holds " + path_.string());
    }
    if (!same_file(fd_, path_)) ::close(std::exchange(fd_, -1));
  }
}

FileLock::~FileLock() {
  ::unlink(path_.c_str());
  ::close(fd_);
}

OutputDirectory::OutputDirectory(const fs::path& path, bool overwrite)
    : path_(path),
      partial_(partial_path(path)),
      overwrite_(overwrite),
      lock_(with_parent(with_suffix(path, ".lock"))) {
  if (!overwrite && fs::exists(fs::symlink_status(path_))) {
    throw InputError("output.path: " + path_.string() +
                     " exists; remove it, choose another path, or set output.overwrite: true");
  }
  fs::remove_all(partial_);
  if (!fs::create_directory(partial_)) throw system_failure("cannot create " + partial_.string());
}

OutputDirectory::~OutputDirectory() { discard(); }

void OutputDirectory::discard() {
  constexpr int kAttempts = 100;  // against a thread or rank that still adds files
  const std::lock_guard<std::mutex> guard(mutex_);
  for (int attempt = 0; !committed_ && attempt < kAttempts; ++attempt) {
    std::error_code error;
    fs::remove_all(partial_, error);
    if (!error) return;
  }
}

void OutputDirectory::commit() {
  const std::lock_guard<std::mutex> guard(mutex_);
  sync_directory(partial_);
  const fs::path replaced = with_suffix(path_, ".replaced");
  const bool replace = overwrite_ && fs::exists(fs::symlink_status(path_));
  if (replace) {
    fs::remove_all(replaced);
    fs::rename(path_, replaced);
  }
  fs::rename(partial_, path_);
  committed_ = true;
  sync_directory(fs::absolute(path_).parent_path());
  if (replace) fs::remove_all(replaced);
}

}  // namespace dotresize
