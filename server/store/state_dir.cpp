#include "server/store/state_dir.h"

#include <SQLiteCpp/Backup.h>
#include <SQLiteCpp/Database.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <optional>
#include <stdexcept>
#include <system_error>
#include <utility>

#include "base/errors.h"
#include "base/files/cache_files.h"
#include "base/files/durable_file.h"
#include "base/files/file_changes.h"
#include "base/files/partial_path.h"
#include "base/process/environment.h"
#include "job/spec/spec_paths.h"
#include "server/store/files.h"

namespace dotresize {
namespace fs = std::filesystem;

namespace {

constexpr char kLockFile[] = "lock";

/// Copies a folder without caches and locks. Ignores missing files, which belong to a job that was
/// deleted meanwhile; throws for any other error.
void copy_folder(const fs::path& from, const fs::path& to) {
  const auto require_read = [](const fs::path& path, const std::error_code& error) {
    if (!error || error == std::errc::no_such_file_or_directory) return;
    throw fs::filesystem_error("cannot back up", path, error);
  };
  files::create_directory(to);
  std::error_code error;
  fs::directory_iterator entry(from, error);
  require_read(from, error);
  while (entry != fs::directory_iterator()) {
    const fs::path path = entry->path();
    const fs::path target = to / path.filename();
    if (path.filename() != "work" && path.filename() != kLockFile) {
      const fs::file_status status = fs::symlink_status(path, error);
      if (fs::is_directory(status)) copy_folder(path, target);
      if (fs::is_regular_file(status)) files::copy_file(path, target, error);
      require_read(path, error);
    }
    entry.increment(error);
    require_read(from, error);
  }
  sync_directory(to);
}

/// Copies the state directory into an empty one. Returns the number of jobs.
int copy_state(const fs::path& original, const fs::path& target) {
  write_private_file(target / kCopiedFromFile, original.string());
  constexpr int kPatienceMs = 10'000;
  SQLite::Database source((original / StateDir::kTable).string(), SQLite::OPEN_READWRITE,
                          kPatienceMs);
  SQLite::Database copy((target / StateDir::kTable).string(),
                        SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE);
  SQLite::Backup(copy, source).executeStep(-1);
  const int jobs = copy.execAndGet("SELECT count(*) FROM jobs").getInt();
  copy_folder(original / StateDir::kJobs, target / StateDir::kJobs);
  if (fs::exists(original / kDrainedFile)) {
    files::copy_file(original / kDrainedFile, target / kDrainedFile);
  }
  sync_directory(target);
  return jobs;
}

/// Directory of a copy that is being made. The destructor removes it, unless it has another name by
/// then.
class UnfinishedCopy {
 public:
  explicit UnfinishedCopy(fs::path path) : path_(std::move(path)) {
    if (!files::create_directory(path_, 0700)) {
      throw InputError("TARGET", path_.string() +
                                     " exists: another backup writes it, or one was killed; remove "
                                     "it, or choose another TARGET");
    }
  }
  ~UnfinishedCopy() {
    std::error_code error;
    files::remove_all(path_, error);
  }
  UnfinishedCopy(const UnfinishedCopy&) = delete;
  UnfinishedCopy& operator=(const UnfinishedCopy&) = delete;

  const fs::path& path() const { return path_; }

 private:
  const fs::path path_;
};

}  // namespace

StateDir::StateDir(fs::path directory) : root(std::move(directory)) {
  std::error_code error;
  try {
    if (!fs::is_directory(root, error)) {
      if (root.has_parent_path()) files::create_directories(root.parent_path());
      files::create_directory(root, 0700);
    }
  } catch (const std::system_error& failure) {
    throw std::runtime_error("--state: cannot make the state directory " + root.string() + ": " +
                             failure.code().message());
  }
  // Other users must stay out: the directory holds logs, paths and token hashes, and files that are
  // run.
  struct stat status {};
  if (::stat(root.c_str(), &status) != 0) throw_errno("cannot use " + root.string());
  if (status.st_uid != ::geteuid()) {
    throw std::runtime_error("the state directory " + root.string() + " belongs to another user");
  }
  if ((status.st_mode & (S_IRWXG | S_IRWXO)) != 0) {
    throw std::runtime_error("the state directory " + root.string() +
                             " is open to other users; restrict it: chmod 700 " + root.string());
  }
  lock_ = try_lock_file(root / kLockFile);
  if (!lock_) {
    throw StateDirInUse("the state directory " + root.string() +
                        " is in use by another dotresize-server; give this one its own --state");
  }
  constexpr size_t kMaxPathBytes = 4096;
  const fs::path mark = root / kCopiedFromFile;
  if (const std::optional<std::string> original = read_file_start(mark, kMaxPathBytes)) {
    // An original that cannot be seen is elsewhere or another user's.
    const fs::path lock = fs::path(*original) / kLockFile;
    if (fs::path(*original) != fs::canonical(root) && fs::exists(lock, error) &&
        !try_lock_file(lock)) {
      throw StateDirInUse("the state directory " + root.string() + " is a copy of " + *original +
                          ", which another dotresize-server uses; stop that one first, or use the "
                          "copy on another machine");
    }
    files::remove(mark);
  }
  files::create_directories(root / kJobs);
  files::create_directories(tokens);
  constexpr std::chrono::days kTokensKept{30};
  remove_old_files(tokens, kTokensKept);
  trim_cache(tokens / kTokenCacheName);
}

Verdict StateDir::check_space() const {
  constexpr int64_t kLeastSpace = int64_t{16} << 20;
  const std::string fault = space_fault(root, kLeastSpace);
  return fault.empty() ? Verdict() : Fault{fault};
}

Drain::Drain(std::filesystem::path file)
    : file_(std::move(file)), on_(std::filesystem::exists(file_)) {}

void Drain::set(bool on) {
  if (on) {
    write_private_file(file_, "");
  } else {
    files::remove(file_);
  }
  on_ = on;
}

int back_up(const fs::path& state_dir, const fs::path& target) {
  if (!fs::exists(state_dir / StateDir::kTable)) {
    throw InputError("--state", state_dir.string() + " has no " + StateDir::kTable);
  }
  const fs::path original = fs::canonical(state_dir);
  const fs::path copy = fs::weakly_canonical(fs::absolute(target));
  // The jobs' folder may be a link to another disk.
  if (is_within(copy, original) ||
      is_within(copy, fs::weakly_canonical(original / StateDir::kJobs))) {
    throw InputError("TARGET", target.string() +
                                   " lies in the state directory, of which it is to "
                                   "be a copy; choose a place elsewhere");
  }
  if (fs::exists(fs::symlink_status(copy))) {
    throw InputError("TARGET", target.string() + " exists already; choose another name");
  }
  const UnfinishedCopy unfinished(partial_path(copy));
  const int jobs = copy_state(original, unfinished.path());
  files::rename(unfinished.path(), copy);
  sync_directory(copy.parent_path());
  return jobs;
}

}  // namespace dotresize
