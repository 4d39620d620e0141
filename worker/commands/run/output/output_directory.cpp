#include "worker/commands/run/output/output_directory.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "base/errors.h"
#include "base/files/confinement.h"
#include "base/files/durable_file.h"
#include "base/files/input_file.h"
#include "base/files/output_owner.h"
#include "base/files/partial_path.h"
#include "base/text/sha256.h"
#include "job/plan/check_files.h"
#include "job/report/job_identity.h"
#include "worker/checkpoint/verify.h"

namespace dotresize {
namespace fs = std::filesystem;
namespace {

/// Mode bit of an unfinished output that tells its ranks of a stop. Other jobs do not see it.
constexpr mode_t kStopped = S_ISVTX;

/// Name of the journal while it is being removed.
constexpr char kRemovedJournal[] = "journal.removed";

/// Name of an output; "out/" counts as "out".
fs::path output_name(const fs::path& path) {
  return (path.has_filename() ? path : path.parent_path()).filename();
}

void mark_stopped(int directory, bool stopped) {
  struct stat status {};
  if (::fstat(directory, &status) != 0) return;
  const mode_t others = status.st_mode & 07777 & ~kStopped;
  ::fchmod(directory, stopped ? others | kStopped : others);
}

InputError cannot_write(const fs::path& path) {
  return InputError("output.path", "cannot write " + path.string() + ": " + std::strerror(errno));
}

/// Gives the entry `from` the free name `to`. Returns errno, EEXIST if the name is taken.
int rename_to_free_name(const PinnedDirectory& parent, const fs::path& from, const fs::path& to) {
  const int dir = parent.descriptor();
  if (::renameat2(dir, from.c_str(), dir, to.c_str(), RENAME_NOREPLACE) == 0) return 0;
  if (errno != EINVAL && errno != ENOSYS) return errno;
  struct stat status {};  // this file system cannot do both in one step
  if (::fstatat(dir, to.c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0) return EEXIST;
  return ::renameat(dir, from.c_str(), dir, to.c_str()) == 0 ? 0 : errno;
}

/// Swaps two names, in one step if the file system can, so that there is always a whole model under
/// `b`. Returns the name under which `old`, the directory that was `b`, is now. On failure both
/// names are as before.
fs::path exchange(const PinnedDirectory& parent, const fs::path& a, const fs::path& b,
                  const PinnedDirectory& old) {
  const int dir = parent.descriptor();
  if (::renameat2(dir, a.c_str(), dir, b.c_str(), RENAME_EXCHANGE) == 0) return a;
  const fs::path aside = replaced_path(b);
  int error = errno;
  if (error == EINVAL || error == ENOSYS) error = rename_to_free_name(parent, b, aside);
  if (error == EEXIST) {
    throw InputError("output.path", shown_path(parent.path() / aside) +
                                        " is in the way: it may be the model that an earlier job "
                                        "replaced; remove it, or move it away");
  }
  if (error == 0) {
    error = parent.holds(aside, old) ? rename_to_free_name(parent, a, b) : EAGAIN;
    if (error == 0) return aside;
    rename_to_free_name(parent, aside, b);
  }
  const std::string shown = shown_path(parent.path() / b);
  errno = error;
  throw cannot_write(shown);
}

/// Opens the directory that contains the output; creates it if `make`.
PinnedDirectory open_parent(const fs::path& path, bool make) {
  const fs::path parent = fs::absolute(partial_path(path)).parent_path();
  const Confinement& confinement = Confinement::of_process();
  PinnedDirectory opened(make ? confinement.make_directories(parent)
                              : confinement.open(parent, O_RDONLY | O_DIRECTORY));
  if (!opened) throw cannot_write(partial_path(path));
  return opened;
}

/// Opens the unfinished output. Throws InputError if it is a link or not a directory, or if it
/// belongs to another user, who could change its files.
PinnedDirectory open_partial(const PinnedDirectory& parent, const fs::path& path) {
  PinnedDirectory opened = parent.enter(partial_path(path).filename());
  if (!opened) throw cannot_write(partial_path(path));
  if (opened.is_own()) return opened;
  throw InputError("output.path", partial_path(path).string() +
                                      " belongs to another user: remove it or choose another path");
}

/// Creates the directory if it is missing, and locks it for this process while the result is open.
/// Throws InputError if another process holds the lock or the directory cannot be created.
PinnedDirectory lock_partial(const PinnedDirectory& parent, const fs::path& path) {
  const fs::path name = partial_path(path).filename();
  // The holder of the lock renames or removes the directory at its end. A lock on a directory that
  // has lost its name is worthless, so try again.
  for (;;) {
    if (::mkdirat(parent.descriptor(), name.c_str(), 0755) != 0 && errno != EEXIST) {
      throw cannot_write(partial_path(path));
    }
    PinnedDirectory opened = open_partial(parent, path);
    if (::flock(opened.descriptor(), LOCK_EX | LOCK_NB) != 0) {
      throw OutputBusy("output.path", "another job is writing " + partial_path(path).string());
    }
    if (parent.holds(name, opened)) return opened;
  }
}

}  // namespace

OutputDirectory::OutputDirectory(const fs::path& path, bool overwrite, bool fresh,
                                 OutputRights rights, const std::string& identity)
    : path_(path),
      name_(output_name(path)),
      partial_name_(partial_path(name_)),
      overwrite_(overwrite),
      rights_(std::move(rights)),
      parent_(open_parent(path, /*make=*/true)) {
  check_replaceable(beside(name_), overwrite);
  directory_ = lock_partial(parent_, path_);
  partial_ = directory_.path();
  if (!is_free_partial(partial_)) {
    throw InputError("output.path", partial_path(path_).string() +
                                        " is not empty and was not written by a dotresize job; "
                                        "remove it or choose another path");
  }
  begin(fresh, identity);
}

void OutputDirectory::begin(bool fresh, const std::string& identity) {
  const std::string shown = partial_path(path_).string();
  const std::optional<OutputOwner> before = owner_of_partial(partial_);
  if (!is_empty_partial(partial_) && !rights_.cover(before)) {
    throw InputError("output.path",
                     shown + " " + ownership_fault(before.value_or(OutputOwner{}).name));
  }
  if (!fresh && is_complete_output(partial_)) {
    complete_ = is_output_of(partial_, identity);
    // A model beside its replacement is what that has replaced.
    const bool replaced = overwrite_ && is_complete_output(beside(name_));
    if (!complete_ && !replaced) {
      throw InputError("output.path",
                       shown +
                           " has the complete output of another job, which could not be renamed: "
                           "rename it, remove it, or start with --fresh, which removes it");
    }
  }
  mark_stopped(directory_.descriptor(), false);
  if (complete_) return take_over();
  const std::error_code error = empty_directory(partial_, fresh ? fs::path() : journal());
  if (error) throw InputError("output.path", shown + ": " + error.message());
  fs::create_directory(journal());
  write_output_owner(journal(), rights_.owner);
}

void OutputDirectory::take_over() {
  const std::optional<OutputOwner> before = owner_of_output(partial_);
  if (rights_.owner.job_id.empty() && !before) return;
  std::vector<std::string> problems;
  std::map<std::string, std::string> known =
      parse_sha256_sums(read_whole_file(partial_ / kSumsFile, kMaxSumsBytes), problems);
  known.erase(fs::path(kReportDirectory) / kOwnerOfOutput);
  write_output_owner(partial_ / kReportDirectory, rights_.owner);
  write_file_atomically(partial_ / kSumsFile, sha256_sums(partial_, known));
}

OutputDirectory::OutputDirectory(const fs::path& path)
    : path_(path),
      name_(output_name(path)),
      partial_name_(partial_path(name_)),
      parent_(open_parent(path, /*make=*/false)),
      directory_(open_partial(parent_, path)),
      partial_(directory_.path()) {}

OutputDirectory::~OutputDirectory() { discard(); }

fs::path OutputDirectory::journal() const { return partial_ / kJournalDirectory; }

fs::path OutputDirectory::beside(const fs::path& name) const { return parent_.path() / name; }

void OutputDirectory::close_journal() {
  if (!rights_.owner.job_id.empty()) {
    write_output_owner(partial_ / kReportDirectory, rights_.owner);
  }
  // The journal is renamed first. If this ends half-way, no partial journal is left, which a later
  // run would take for damage.
  const fs::path removed = partial_ / kRemovedJournal;
  fs::remove_all(removed);
  fs::rename(journal(), removed);
  fs::remove_all(removed);
}

void OutputDirectory::discard() {
  const std::lock_guard<std::mutex> guard(mutex_);
  if (settled_ || !directory_) return;
  // Files may be written meanwhile, for ever if a thread or rank keeps adding some. A later job's
  // directory of the same name stays.
  constexpr int kMaxAttempts = 100;
  for (int attempt = 0; attempt < kMaxAttempts; ++attempt) {
    if (!parent_.holds(partial_name_, directory_)) return;
    if (!trim_unfinished(parent_, partial_name_, directory_)) return;
  }
}

void OutputDirectory::stop() {
  mark_stopped(directory_.descriptor(), true);
  discard();
}

bool OutputDirectory::stopped() const {
  // The open directory is checked, because it may have lost its name.
  struct stat status {};
  return ::fstat(directory_.descriptor(), &status) != 0 || (status.st_mode & kStopped) != 0;
}

void OutputDirectory::leave() {
  const std::lock_guard<std::mutex> guard(mutex_);
  settled_ = true;
}

void OutputDirectory::require_name(const fs::path& name) const {
  if (parent_.holds(name, directory_)) return;
  throw std::runtime_error(shown_path(beside(name)) +
                           " is not what this job wrote: something else has replaced it");
}

void OutputDirectory::check_replaceable(const fs::path& path, bool overwrite) const {
  if (const auto fault = output_fault(path, overwrite, path_)) {
    throw InputError("output.path", fault->what);
  }
  require_covered(path);
}

void OutputDirectory::require_covered(const fs::path& path) const {
  const std::optional<OutputOwner> mark = owner_of_output(path);
  if (!fs::exists(fs::symlink_status(path)) || rights_.cover(mark)) return;
  throw InputError("output.path",
                   path_.string() + " " + ownership_fault(mark.value_or(OutputOwner{}).name));
}

void OutputDirectory::replace() {
  const PinnedDirectory before = parent_.enter(name_);
  // A typing error in the path must not destroy other files, whatever has come there meanwhile.
  const fs::path old = before ? before.path() : beside(name_);
  if (const auto fault = replacement_fault(old, /*overwrite=*/true, path_)) {
    throw InputError("output.path", fault->what);
  }
  require_covered(old);
  const fs::path left = exchange(parent_, partial_name_, name_, before);
  require_name(name_);
  settled_ = true;
  if (!parent_.holds(left, before)) return;
  std::error_code error = empty_directory(before.path());
  if (!error) error = remove_empty_directory(parent_, left);
  if (!error) return;
  fmt::print(stderr, "warning: {}, the model that was there before, cannot be removed: {}\n",
             shown_path(beside(left)), error.message());
}

void OutputDirectory::commit() {
  const std::lock_guard<std::mutex> guard(mutex_);
  sync_directory(partial_);
  require_name(partial_name_);
  try {
    if (overwrite_ && fs::exists(fs::symlink_status(beside(name_)))) {
      replace();
    } else {
      const int error = rename_to_free_name(parent_, partial_name_, name_);
      if (error == EEXIST) check_replaceable(beside(name_), overwrite_);
      errno = error;
      if (error != 0) throw cannot_write(path_);
      require_name(name_);
      settled_ = true;
    }
  } catch (const InputError& fault) {
    const std::string partial = partial_path(path_).string();
    throw InputError("output.path",
                     fault.description() + "; the complete output stays in " + partial +
                         ": then run the job again, which computes nothing, or rename " + partial);
  }
  sync_directory(parent_.path());
}

}  // namespace dotresize
