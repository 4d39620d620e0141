#include "base/files/input_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/errors.h"

namespace dotresize {
namespace {

FileStamp stamp_of(const struct stat& status) {
  const auto nanoseconds = [](const timespec& time) {
    return int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
  };
  return {status.st_ino, static_cast<uint64_t>(status.st_size), nanoseconds(status.st_mtim),
          nanoseconds(status.st_ctim)};
}

}  // namespace

std::optional<FileStamp> stamp_of_file(const std::filesystem::path& path) {
  struct stat status = {};
  if (::stat(path.c_str(), &status) != 0) return std::nullopt;
  return stamp_of(status);
}

InputFile::InputFile(const std::string& path, const Confinement& confinement)
    // O_NONBLOCK: opening a FIFO must fail below, not wait for a writer.
    : path_(path), fd_(confinement.open(path, O_RDONLY | O_NONBLOCK)) {
  if (!fd_ && (errno == ENOENT || errno == ENOTDIR)) {
    throw InputError(shown_path(path) + ": no such file");
  }
  if (!fd_) throw InputError(shown_path(path) + ": cannot open: " + std::strerror(errno));
  struct stat status = {};
  const bool regular = ::fstat(fd_.get(), &status) == 0 && S_ISREG(status.st_mode);
  if (!regular) throw InputError(shown_path(path) + ": is not a regular file");
  size_ = static_cast<uint64_t>(status.st_size);
}

FileStamp InputFile::stamp() const {
  struct stat status = {};
  if (::fstat(fd_.get(), &status) != 0) {
    throw InputError(shown_path(path_) + ": cannot read: " + std::strerror(errno));
  }
  return stamp_of(status);
}

void InputFile::read(char* to, uint64_t count, uint64_t offset) const {
  while (count > 0) {
    const ssize_t got = ::pread(fd_.get(), to, count, static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw InputError(shown_path(path_) + ": cannot read: " + std::strerror(errno));
    if (got == 0) {
      throw InputError(shown_path(path_) + ": the file ends at byte " + std::to_string(offset) +
                       ", " + std::to_string(count) + " bytes too early");
    }
    to += got;
    offset += static_cast<uint64_t>(got);
    count -= static_cast<uint64_t>(got);
  }
}

std::string read_whole_file(const std::filesystem::path& path, uint64_t max_bytes,
                            const Confinement& confinement) {
  const InputFile file(path.string(), confinement);
  if (file.size() > max_bytes) {
    throw InputError(shown_path(path) + ": is larger than " + std::to_string(max_bytes) +
                     " bytes, the largest accepted size");
  }
  std::string content(file.size(), '\0');
  file.read(content.data(), content.size(), 0);
  return content;
}

}  // namespace dotresize
