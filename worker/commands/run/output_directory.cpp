#include "worker/commands/run/output_directory.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "base/durable_file.h"
#include "base/errors.h"
#include "base/partial_path.h"

namespace dotresize {
namespace fs = std::filesystem;
namespace {

/// In the mode of an unfinished output, which other jobs do not see: a rank was stopped.
constexpr mode_t kStopped = S_ISVTX;

/// The journal's name while it is removed.
constexpr char kRemovedJournal[] = "journal.removed";

void mark_stopped(int directory, bool stopped) {
  struct stat status {};
  if (::fstat(directory, &status) != 0) return;
  const mode_t others = status.st_mode & 07777 & ~kStopped;
  ::fchmod(directory, stopped ? others | kStopped : others);
}

InputError cannot_write(const fs::path& path) {
  return InputError("output.path", "cannot write " + path.string() + ": " + std::strerror(errno));
}

/// Swaps two names in one step: at any moment there is a whole model under `b`.
void exchange(const fs::path& a, const fs::path& b) {
  if (::renameat2(AT_FDCWD, a.c_str(), AT_FDCWD, b.c_str(), RENAME_EXCHANGE) == 0) return;
  if (errno != EINVAL && errno != ENOSYS) throw cannot_write(b);
  // A file system that cannot: for a moment there is none.
  const fs::path aside = replaced_path(b);
  fs::remove_all(aside);
  fs::rename(b, aside);
  fs::rename(a, b);
  fs::rename(aside, a);
}

/// `overwrite` is for models: a slip of the pen must not cost anything else.
void check_replaceable(const fs::path& path) {
  if (!fs::exists(fs::symlink_status(path)) || is_model_of_dotresize(path)) return;
  throw InputError("output.path", foreign_output_fault(path));
}

bool same_file(int fd, const fs::path& path) {
  struct stat opened {};
  struct stat named {};
  return ::fstat(fd, &opened) == 0 && ::stat(path.c_str(), &named) == 0 &&
         opened.st_dev == named.st_dev && opened.st_ino == named.st_ino;
}

void make_directory(const fs::path& path) {
  std::error_code error;
  fs::create_directories(fs::absolute(path).parent_path(), error);
  if (::mkdir(path.c_str(), 0755) != 0 && errno != EEXIST) throw cannot_write(path);
}

UniqueFd open_directory(const fs::path& path) {
  UniqueFd fd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW));
  if (!fd) throw cannot_write(path);
  return fd;
}

/// The directory, made if it is missing, which this process alone writes while the result is open.
/// Throws InputError if another process holds the lock or the directory cannot be made.
UniqueFd lock_directory(const fs::path& path) {
  // A holder that ends renames or removes the directory: a lock on one that has lost its name is
  // none.
  for (;;) {
    make_directory(path);
    UniqueFd fd = open_directory(path);
    if (::flock(fd.get(), LOCK_EX | LOCK_NB) != 0) {
      throw InputError("output.path", "another job is writing " + path.string());
    }
    if (same_file(fd.get(), path)) return fd;
  }
}

/// Whatever is still being written into it, but not the directory of that name of a later job.
void remove_unfinished(const fs::path& partial, int fd) {
  constexpr int kMaxAttempts = 100;  // against a thread or rank that still adds files
  for (int attempt = 0; attempt < kMaxAttempts && same_file(fd, partial); ++attempt) {
    if (!trim_unfinished(partial)) return;
  }
}

}  // namespace

OutputDirectory::OutputDirectory(const fs::path& path, bool overwrite, bool fresh,
                                 OutputOwner owner)
    : path_(path), partial_(partial_path(path)), overwrite_(overwrite), owner_(std::move(owner)) {
  if (!overwrite && fs::exists(fs::symlink_status(path_))) {
    throw InputError("output.path", existing_output_fault(path_));
  }
  check_replaceable(path_);
  directory_ = lock_directory(partial_);
  if (!is_free_partial(partial_)) {
    throw InputError("output.path", partial_.string() +
                                        " is not empty, and no job of dotresize has made it; "
                                        "remove it or choose another path");
  }
  mark_stopped(directory_.get(), false);
  const std::error_code error = empty_directory(partial_, fresh ? fs::path() : journal());
  if (error) throw InputError("output.path", partial_.string() + ": " + error.message());
  fs::create_directory(journal());
  write_output_owner(journal(), owner_);
}

OutputDirectory::OutputDirectory(const fs::path& path)
    : path_(path), partial_(partial_path(path)), directory_(open_directory(partial_)) {}

OutputDirectory::~OutputDirectory() { discard(); }

fs::path OutputDirectory::journal() const { return partial_ / kJournalDirectory; }

void OutputDirectory::close_journal() {
  if (!owner_.job_id.empty()) write_output_owner(partial_ / kReportDirectory, owner_);
  // Whatever ends this half-way leaves no journal in part, which a further run would take for
  // damage.
  const fs::path removed = partial_ / kRemovedJournal;
  fs::remove_all(removed);
  fs::rename(journal(), removed);
  fs::remove_all(removed);
}

void OutputDirectory::discard() {
  const std::lock_guard<std::mutex> guard(mutex_);
  if (!settled_) remove_unfinished(partial_, directory_.get());
}

void OutputDirectory::stop() {
  mark_stopped(directory_.get(), true);
  discard();
}

bool OutputDirectory::stopped() const {
  // Of the open directory: it may have no name any more.
  struct stat status {};
  return ::fstat(directory_.get(), &status) != 0 || (status.st_mode & kStopped) != 0;
}

void OutputDirectory::leave() {
  const std::lock_guard<std::mutex> guard(mutex_);
  settled_ = true;
}

void OutputDirectory::commit() {
  const std::lock_guard<std::mutex> guard(mutex_);
  sync_directory(partial_);
  const bool replace = overwrite_ && fs::exists(fs::symlink_status(path_));
  if (replace) {
    check_replaceable(path_);
    exchange(partial_, path_);
  } else {
    fs::rename(partial_, path_);
  }
  settled_ = true;
  sync_directory(fs::absolute(path_).parent_path());
  if (replace) fs::remove_all(partial_);  // what was there before
}

}  // namespace dotresize
