#include "server/store/files.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <functional>
#include <system_error>

#include "base/errors.h"
#include "base/files/durable_file.h"
#include "base/files/file_changes.h"

namespace dotresize {
namespace {

/// Reads at most `max_bytes` from the offset that `start` gives for the file's size; nullopt if the
/// file does not exist.
std::optional<std::string> read_from(const std::filesystem::path& path, size_t max_bytes,
                                     const std::function<int64_t(int64_t size)>& start) {
  const auto failed = [&] { throw_errno("cannot read " + path.string()); };
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd && errno == ENOENT) return std::nullopt;
  struct stat status = {};
  if (!fd || ::fstat(fd.get(), &status) != 0) failed();
  const int64_t offset = start(status.st_size);
  if (offset > status.st_size) return "";  // the kernel rejects very large offsets
  std::string data(max_bytes, '\0');
  size_t filled = 0;
  while (filled < max_bytes) {
    const ssize_t got = ::pread(fd.get(), data.data() + filled, max_bytes - filled,
                                offset + static_cast<int64_t>(filled));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) failed();
    if (got == 0) break;
    filled += static_cast<size_t>(got);
  }
  data.resize(filled);
  return data;
}

}  // namespace

void remove_old_files(const std::filesystem::path& dir, std::chrono::seconds age) {
  namespace fs = std::filesystem;
  const auto oldest = fs::file_time_type::clock::now() - age;
  std::error_code error;
  for (fs::recursive_directory_iterator file(dir, error);
       !error && file != fs::recursive_directory_iterator(); file.increment(error)) {
    std::error_code one;
    if (!file->is_regular_file(one) || one) continue;
    const auto modified = file->last_write_time(one);
    if (!one && modified < oldest) files::remove(file->path(), one);
  }
}

void throw_errno(const std::string& what) {
  throw std::system_error(errno, std::generic_category(), what);
}

void write_private_file(const std::filesystem::path& path, std::string_view content) {
  write_file_atomically(path, content, 0600);
}

void require_private_file(const std::string& option, const std::filesystem::path& file) {
  struct stat status = {};
  if (::stat(file.c_str(), &status) == 0 && (status.st_mode & (S_IRWXG | S_IRWXO)) == 0) return;
  throw InputError(option, file.string() + " is missing or readable by other users; chmod 600");
}

std::optional<std::string> read_file_start(const std::filesystem::path& path, size_t max_bytes) {
  return read_from(path, max_bytes, [](int64_t) { return 0; });
}

std::string read_chunk(const std::filesystem::path& path, int64_t offset, size_t max_bytes) {
  return read_from(path, max_bytes, [&](int64_t) { return offset; }).value_or("");
}

std::string read_tail(const std::filesystem::path& path, int64_t from, size_t max_bytes) {
  return read_from(path, max_bytes,
                   [&](int64_t size) {
                     return std::max<int64_t>({0, from, size - static_cast<int64_t>(max_bytes)});
                   })
      .value_or("");
}

UniqueFd try_lock_file(const std::filesystem::path& path, LockedFile kind) {
  const bool directory = kind == LockedFile::kDirectory;
  const int flags = directory ? O_RDONLY | O_DIRECTORY : O_RDWR | O_CREAT;
  UniqueFd fd(::open(path.c_str(), flags | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!fd && directory && (errno == ENOENT || errno == ENOTDIR || errno == ELOOP)) return fd;
  if (!fd) throw_errno("cannot open " + path.string());
  if (::flock(fd.get(), LOCK_EX | LOCK_NB) == 0) return fd;
  if (errno != EWOULDBLOCK) throw_errno("cannot lock " + path.string());
  return UniqueFd();
}

}  // namespace dotresize
