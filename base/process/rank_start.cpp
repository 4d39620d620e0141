#include "base/process/rank_start.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <system_error>

#include "base/errors.h"
#include "base/files/file_changes.h"
#include "base/files/partial_path.h"
#include "base/text/encodings.h"

namespace dotresize {
namespace fs = std::filesystem;
namespace {

constexpr char kPrefix[] = "dotresize-run-";

/// Descriptors that mpirun opens for itself and for each rank, measured with OpenMPI 4.1.
constexpr rlim_t kFilesOfMpirun = 32;
constexpr rlim_t kFilesOfRank = 5;

void require_open_files(int ranks) {
  const rlim_t needed = kFilesOfMpirun + kFilesOfRank * static_cast<rlim_t>(ranks);
  rlimit limit = {};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= needed) return;
  if (limit.rlim_max < needed) {
    throw ProgramMissing("the limit of open files: " + std::to_string(limit.rlim_max) +
                         " are too few for an mpirun with " + std::to_string(ranks) +
                         " ranks, which needs " + std::to_string(needed) +
                         ": raise it with ulimit -n (LimitNOFILE of systemd), or set "
                         "resources.ranks: 1");
  }
  limit.rlim_cur = needed;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

/// Removes what killed processes of this user have left.
void remove_abandoned(const PinnedDirectory& parent) {
  std::error_code unreadable;
  for (const fs::directory_entry& entry : entries_of(parent.path(), unreadable)) {
    const fs::path name = entry.path().filename();
    if (!name.string().starts_with(kPrefix)) continue;
    const PinnedDirectory folder = parent.enter(name);
    if (!folder || !folder.is_own()) continue;
    if (::flock(folder.descriptor(), LOCK_EX | LOCK_NB) != 0) continue;  // its owner lives
    if (!empty_directory(folder.path())) remove_empty_directory(parent, name);
  }
}

}  // namespace

void require_rank_start(int ranks, const fs::path& shared_memory) {
  if (ranks == 1) return;
  require_open_files(ranks);
  const std::string fault = space_fault(shared_memory, kLeastSharedMemory);
  if (fault.empty()) return;
  throw ProgramMissing(shared_memory.string() + ": " + fault + "; " + kSharedMemoryAdvice);
}

SharedMemoryFolder::SharedMemoryFolder(int ranks, const fs::path& parent) {
  std::error_code missing;
  const fs::path canonical = fs::canonical(parent, missing);
  if (ranks == 1 || missing) return;
  parent_ = PinnedDirectory(canonical);
  if (!parent_) return;
  remove_abandoned(parent_);
  // Another process may take a folder that is not locked yet for an abandoned one.
  constexpr int kMostAttempts = 100;
  for (int attempt = 0; attempt < kMostAttempts && path_.empty(); ++attempt) {
    if (!make(canonical)) return;
  }
}

bool SharedMemoryFolder::make(const fs::path& parent) {
  const fs::path name = kPrefix + hex_digits(random_bytes(8));
  if (!files::create_directory(parent_.path() / name, 0700)) return false;
  // Children inherit the lock. So it lasts until mpirun has ended, even if this process is killed.
  constexpr int kFlags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW;
  folder_ = PinnedDirectory(UniqueFd(::openat(parent_.descriptor(), name.c_str(), kFlags)));
  const bool locked = folder_ && ::flock(folder_.descriptor(), LOCK_EX | LOCK_NB) == 0;
  if (locked && parent_.holds(name, folder_)) path_ = parent / name;
  return true;
}

SharedMemoryFolder::~SharedMemoryFolder() {
  if (path_.empty()) return;
  const fs::path name = path_.filename();
  if (!empty_directory(folder_.path()) && parent_.holds(name, folder_)) {
    remove_empty_directory(parent_, name);
  }
}

}  // namespace dotresize
