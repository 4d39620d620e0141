#include "base/input_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "base/errors.h"

namespace dotresize {
namespace {

std::string errno_text() { return std::generic_category().message(errno); }

}  // namespace

InputFile::InputFile(const std::string& path)
    // O_NONBLOCK: opening a FIFO must fail below, not wait for a writer.
    : path_(path), fd_(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {
  if (!fd_ && (errno == ENOENT || errno == ENOTDIR)) {
    throw InputError(path + ": there is no such file");
  }
  if (!fd_) throw InputError(path + ": cannot open: " + errno_text());
  struct stat status = {};
  const bool regular = ::fstat(fd_.get(), &status) == 0 && S_ISREG(status.st_mode);
  if (!regular) throw InputError(path + ": is not a regular file");
  size_ = static_cast<uint64_t>(status.st_size);
}

void InputFile::read(char* to, uint64_t count, uint64_t offset) const {
  while (count > 0) {
    const ssize_t got = ::pread(fd_.get(), to, count, static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw InputError(path_ + ": cannot read: " + errno_text());
    if (got == 0) {
      throw InputError(path_ + ": the file ends at byte " + std::to_string(offset) + ", " +
                       std::to_string(count) + " bytes too early");
    }
    to += got;
    offset += static_cast<uint64_t>(got);
    count -= static_cast<uint64_t>(got);
  }
}

std::string read_whole_file(const std::filesystem::path& path, uint64_t max_bytes) {
  const InputFile file(path.string());
  if (file.size() > max_bytes) {
    throw InputError(path.string() + ": is larger than " + std::to_string(max_bytes) +
                     " bytes, the most that is accepted");
  }
  std::string content(file.size(), '\0');
  file.read(content.data(), content.size(), 0);
  return content;
}

}  // namespace dotresize
