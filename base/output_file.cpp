#include "base/output_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

namespace dotresize {

OutputFile::OutputFile(std::filesystem::path path, Mode mode, mode_t permissions)
    : path_(std::move(path)) {
  const int exclusive = mode == Mode::kMustNotExist ? O_EXCL : O_TRUNC;
  descriptor_ =
      ::open(path_.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW | exclusive, permissions);
  if (descriptor_ < 0) {
    fail("create");
  }
}

OutputFile::~OutputFile() {
  if (descriptor_ >= 0) {
    ::close(descriptor_);
  }
}

OutputFile::OutputFile(OutputFile&& other) noexcept
    : path_(std::move(other.path_)), descriptor_(std::exchange(other.descriptor_, -1)) {}

void OutputFile::reserve(uint64_t size) {
  const auto length = static_cast<off_t>(size);
  if (::ftruncate(descriptor_, length) != 0) {
    fail("size");
  }
  int result;
  do {
    result = ::fallocate(descriptor_, 0, 0, length);
  } while (result != 0 && errno == EINTR);
  if (result != 0 && errno != EOPNOTSUPP && errno != ENOSYS) {
    fail("reserve space for");
  }
}

void OutputFile::write(const char* data, uint64_t size, uint64_t offset) {
  while (size > 0) {
    const ssize_t written = ::pwrite(descriptor_, data, size, static_cast<off_t>(offset));
    if (written < 0 && errno == EINTR) {
      continue;
    }
    if (written < 0) {
      fail("write");
    }
    data += written;
    offset += static_cast<uint64_t>(written);
    size -= static_cast<uint64_t>(written);
  }
}

void OutputFile::close() {
  if (::fsync(descriptor_) != 0) {
    fail("flush");
  }
  if (::close(std::exchange(descriptor_, -1)) != 0) {
    fail("close");
  }
}

void OutputFile::fail(const char* action) const {
  throw std::system_error(errno, std::generic_category(),
                          path_.string() + ": cannot " + action + " the file");
}

}  // namespace dotresize
