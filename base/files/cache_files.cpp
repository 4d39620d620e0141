#include "base/files/cache_files.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "base/errors.h"
#include "base/files/confinement.h"
#include "base/files/directory.h"
#include "base/files/durable_file.h"
#include "base/files/file_changes.h"
#include "base/files/input_file.h"
#include "base/text/sha256.h"

namespace dotresize {
namespace fs = std::filesystem;
namespace {

constexpr char kSeal[] = ".sha256";

fs::path seal_of(const fs::path& file) {
  fs::path seal = file;
  seal += kSeal;
  return seal;
}

UniqueFd open_directory(const fs::path& directory) {
  return Confinement::of_process().open(directory, O_RDONLY | O_DIRECTORY);
}

bool is_own(const fs::path& file, const Confinement& confinement) {
  const UniqueFd opened = confinement.open(file, O_PATH | O_NOFOLLOW);
  struct stat status {};
  return opened && ::fstat(opened.get(), &status) == 0 && S_ISREG(status.st_mode) &&
         status.st_uid == ::geteuid() && (status.st_mode & S_IWOTH) == 0;
}

/// A file of a cache with its seal.
struct Kept {
  fs::path file;
  int64_t bytes = 0;
  fs::file_time_type used;
};

std::vector<Kept> kept_files(const fs::path& directory) {
  std::vector<Kept> files;
  std::error_code error;
  for (const fs::directory_entry& entry : entries_of(directory, error)) {
    std::error_code one;
    if (entry.path().extension() == kSeal || !fs::is_regular_file(entry.symlink_status(one))) {
      continue;
    }
    const auto bytes = static_cast<int64_t>(entry.file_size(one));
    const fs::file_time_type used = entry.last_write_time(one);
    if (!one) files.push_back({entry.path(), bytes, used});
  }
  return files;
}

}  // namespace

void seal_file(const fs::path& file, const Confinement& confinement) {
  const std::string hash = sha256_of_file(InputFile(file, confinement));
  write_file_atomically(seal_of(file), hash + "\n", 0644, confinement);
}

bool is_sealed(const fs::path& file, const Confinement& confinement) {
  const fs::path seal = seal_of(file);
  constexpr size_t kMaxSealBytes = 128;
  try {
    return is_own(file, confinement) && is_own(seal, confinement) &&
           read_whole_file(seal, kMaxSealBytes, confinement) ==
               sha256_of_file(InputFile(file, confinement)) + "\n";
  } catch (const InputError&) {
    return false;
  }
}

CacheUse::CacheUse(fs::path directory)
    : directory_(std::move(directory)), lock_(open_directory(directory_)) {
  if (!lock_ || ::flock(lock_.get(), LOCK_SH) != 0) {
    throw std::system_error(errno, std::generic_category(), directory_.string());
  }
}

CacheUse::~CacheUse() {
  if (!lock_) return;
  lock_ = UniqueFd();
  trim_cache(directory_);
}

fs::path CacheUse::for_others() const { return path_for_others(lock_.get()); }

void trim_cache(const fs::path& directory) {
  constexpr int64_t kMost = int64_t{4} << 30;
  std::error_code error;
  const fs::space_info space = fs::space(directory, error);
  trim_cache(directory,
             error ? kMost : std::min<int64_t>(kMost, static_cast<int64_t>(space.capacity / 8)));
}

void trim_cache(const fs::path& directory, int64_t limit) {
  const UniqueFd lock = open_directory(directory);
  if (!lock || ::flock(lock.get(), LOCK_EX | LOCK_NB) != 0) return;
  std::vector<Kept> kept = kept_files(path_of_descriptor(lock.get()) / ".");
  std::ranges::sort(kept, {}, &Kept::used);
  int64_t bytes = 0;
  for (const Kept& file : kept) bytes += file.bytes;
  for (const Kept& file : kept) {
    if (bytes <= limit) return;
    std::error_code error;
    files::remove(file.file, error);
    if (error) continue;
    bytes -= file.bytes;
    files::remove(seal_of(file.file), error);
  }
}

}  // namespace dotresize
