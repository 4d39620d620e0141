#include "server/store/files.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <utility>

#include "base/errors.h"
#include "base/files/durable_file.h"

namespace dotresize {
namespace {

/// Returns an empty descriptor if the file does not exist.
UniqueFd open_for_reading(const std::filesystem::path& path) {
  UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd && errno != ENOENT) throw_errno("cannot read " + path.string());
  return fd;
}

int64_t size_of(const UniqueFd& fd, const std::filesystem::path& path) {
  struct stat status = {};
  if (::fstat(fd.get(), &status) != 0) throw_errno("cannot read " + path.string());
  return status.st_size;
}

std::string read_at(int fd, int64_t offset, size_t max_bytes, const std::string& name) {
  std::string data(max_bytes, '\0');
  size_t filled = 0;
  while (filled < max_bytes) {
    const ssize_t got = ::pread(fd, data.data() + filled, max_bytes - filled,
                                offset + static_cast<int64_t>(filled));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw_errno("cannot read " + name);
    if (got == 0) break;
    filled += static_cast<size_t>(got);
  }
  data.resize(filled);
  return data;
}

/// Returns an empty descriptor if another process holds the lock.
UniqueFd try_lock(UniqueFd fd, const std::filesystem::path& path) {
  if (::flock(fd.get(), LOCK_EX | LOCK_NB) == 0) return fd;
  if (errno != EWOULDBLOCK) throw_errno("cannot lock " + path.string());
  return UniqueFd();
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
    if (!one && modified < oldest) fs::remove(file->path(), one);
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
  throw InputError(option, file.string() + " is missing or open to other users; chmod 600");
}

std::optional<std::string> read_file_start(const std::filesystem::path& path, size_t max_bytes) {
  const UniqueFd fd = open_for_reading(path);
  if (!fd) return std::nullopt;
  return read_at(fd.get(), 0, max_bytes, path.string());
}

std::string read_chunk(const std::filesystem::path& path, int64_t offset, size_t max_bytes) {
  const UniqueFd fd = open_for_reading(path);
  if (!fd || offset >= size_of(fd, path)) return "";  // the kernel rejects very large offsets
  return read_at(fd.get(), offset, max_bytes, path.string());
}

std::string read_tail(const std::filesystem::path& path, int64_t from, size_t max_bytes) {
  const UniqueFd fd = open_for_reading(path);
  if (!fd) return "";
  const int64_t start =
      std::max<int64_t>({0, from, size_of(fd, path) - static_cast<int64_t>(max_bytes)});
  return read_at(fd.get(), start, max_bytes, path.string());
}

UniqueFd try_lock_file(const std::filesystem::path& path) {
  UniqueFd fd(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!fd) throw_errno("cannot open " + path.string());
  return try_lock(std::move(fd), path);
}

UniqueFd try_lock_directory(const std::filesystem::path& path) {
  UniqueFd fd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW));
  if (fd) return try_lock(std::move(fd), path);
  if (errno != ENOENT && errno != ENOTDIR && errno != ELOOP)
    throw_errno("cannot open " + path.string());
  return UniqueFd();
}

}  // namespace dotresize
