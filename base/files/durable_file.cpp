#include "base/files/durable_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <random>
#include <string>
#include <system_error>
#include <utility>

#include "base/files/confinement.h"
#include "base/files/file_changes.h"

namespace dotresize {
namespace fs = std::filesystem;

OutputFile::OutputFile(std::filesystem::path path, Mode mode, mode_t permissions,
                       const Confinement& confinement)
    : path_(std::move(path)) {
  const int creation = mode == Mode::kMustExist      ? 0
                       : mode == Mode::kMustNotExist ? O_CREAT | O_EXCL
                                                     : O_CREAT | O_TRUNC;
  fd_ = confinement.open(path_, O_WRONLY | O_NOFOLLOW | creation, permissions);
  if (!fd_) fail(mode == Mode::kMustExist ? "open" : "create");
}

void OutputFile::reserve(uint64_t size) {
  const auto length = static_cast<off_t>(size);
  if (::ftruncate(fd_.get(), length) != 0) fail("size");
  int result;
  do {
    result = ::fallocate(fd_.get(), 0, 0, length);
  } while (result != 0 && errno == EINTR);
  if (result != 0 && errno != EOPNOTSUPP && errno != ENOSYS) fail("reserve space for");
}

void OutputFile::write(const char* data, uint64_t size, uint64_t offset) {
  while (size > 0) {
    const ssize_t written = ::pwrite(fd_.get(), data, size, static_cast<off_t>(offset));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail("write");
    data += written;
    offset += static_cast<uint64_t>(written);
    size -= static_cast<uint64_t>(written);
  }
}

void OutputFile::close() {
  if (::fsync(fd_.get()) != 0) fail("flush");
  if (::close(fd_.release()) != 0) fail("close");
}

void OutputFile::fail(const char* action) const {
  throw std::system_error(errno, std::generic_category(),
                          shown_path(path_) + ": cannot " + action + " the file");
}

void write_file_atomically(const fs::path& path, std::string_view content, mode_t permissions,
                           const Confinement& confinement) {
  // A name in the same directory that no other process picks.
  std::random_device random;
  fs::path temporary = path;
  temporary += kTemporaryMark + std::to_string(random());
  temporary += std::to_string(random());
  try {
    OutputFile file(temporary, OutputFile::Mode::kMustNotExist, permissions, confinement);
    file.write(content.data(), content.size(), 0);
    file.close();
    files::rename(temporary, path, confinement);
  } catch (const std::system_error& error) {
    std::error_code left_behind;
    files::remove(temporary, left_behind);
    throw std::system_error(error.code(), shown_path(path) + ": cannot write the file");
  }
  sync_directory(path.parent_path(), confinement);
}

void write_for_user(const fs::path& path, std::string_view content) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (!fs::exists(status) || fs::is_regular_file(status)) {
    const fs::path actual = fs::weakly_canonical(path, error);
    write_file_atomically(error ? path : actual, content);
    return;
  }
  const UniqueFd fd = Confinement::of_process().open(path, O_WRONLY);
  while (fd && !content.empty()) {
    const ssize_t written = ::write(fd.get(), content.data(), content.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) break;
    content.remove_prefix(static_cast<size_t>(written));
  }
  if (!fd || !content.empty()) {
    throw std::system_error(errno, std::generic_category(),
                            shown_path(path) + ": cannot write to it");
  }
}

void sync_directory(const fs::path& dir, const Confinement& confinement) {
  const fs::path name = dir.empty() ? "." : dir;
  const UniqueFd descriptor = confinement.open(name, O_RDONLY | O_DIRECTORY);
  if (!descriptor || ::fsync(descriptor.get()) != 0) {
    throw std::system_error(errno, std::generic_category(),
                            shown_path(name) + ": cannot flush the directory");
  }
}

}  // namespace dotresize
