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
#include "base/files/file_changes.h"
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

constexpr char kKey[] = "output.path";

void mark_stopped(int directory, bool stopped) {
  struct stat status {};
  if (::fstat(directory, &status) != 0) return;
  const mode_t others = status.st_mode & 07777 & ~kStopped;
  ::fchmod(directory, stopped ? others | kStopped : others);
}

/// Swaps the names of the unfinished output and of `old`, the complete one, in one step if the file
/// system can, so that there is always a whole model. Returns the name that `old` has now. On
/// failure both names are as before.
fs::path exchange(const UnfinishedDirectory& output, const PinnedDirectory& old) {
  const fs::path unfinished = output.beside(output.partial_name());
  const fs::path complete = output.beside(output.name());
  std::error_code error;
  files::exchange(unfinished, complete, error);
  if (!error) return output.partial_name();
  fs::path aside = replaced_path(output.name());
  if (error == std::errc::invalid_argument || error == std::errc::function_not_supported) {
    files::rename_to_free_name(complete, output.beside(aside), error);
  }
  if (error == std::errc::file_exists) {
    throw InputError(kKey, shown_path(output.beside(aside)) +
                               " is in the way: it may be the model that an earlier job "
                               "replaced; remove it, or move it away");
  }
  if (!error) {
    error = std::make_error_code(std::errc::resource_unavailable_try_again);
    if (output.parent().holds(aside, old)) files::rename_to_free_name(unfinished, complete, error);
    if (!error) return aside;
    std::error_code left_aside;
    files::rename_to_free_name(output.beside(aside), complete, left_aside);
  }
  throw cannot_write(kKey, shown_path(complete), error.value());
}

}  // namespace

OutputDirectory::OutputDirectory(const fs::path& path, bool overwrite, bool fresh,
                                 OutputRights rights, const std::string& identity)
    : path_(path),
      overwrite_(overwrite),
      rights_(std::move(rights)),
      unfinished_(path, kKey, UnfinishedDirectory::Parent::kMake) {
  check_replaceable(unfinished_.beside(unfinished_.name()), overwrite);
  unfinished_.lock();
  partial_ = unfinished_.path();
  if (!is_free_partial(partial_)) {
    throw InputError(kKey, partial_path(path_).string() +
                               " is not empty and was not written by a dotresize job; "
                               "remove it or choose another path");
  }
  begin(fresh, identity);
}

void OutputDirectory::begin(bool fresh, const std::string& identity) {
  const std::string shown = partial_path(path_).string();
  const std::optional<OutputOwner> before = owner_of_partial(partial_);
  if (!is_empty_partial(partial_) && !rights_.cover(before)) {
    throw InputError(kKey, shown + " " + ownership_fault(before.value_or(OutputOwner{}).name));
  }
  if (!fresh && is_complete_output(partial_)) {
    complete_ = is_output_of(partial_, identity);
    // A model beside its replacement is what that has replaced.
    const bool replaced = overwrite_ && is_complete_output(unfinished_.beside(unfinished_.name()));
    if (!complete_ && !replaced) {
      throw InputError(kKey,
                       shown +
                           " has the complete output of another job, which could not be renamed: "
                           "rename it, remove it, or start with --fresh, which removes it");
    }
  }
  mark_stopped(unfinished_.directory().descriptor(), false);
  if (complete_) return take_over();
  const std::error_code error = empty_directory(partial_, fresh ? fs::path() : journal());
  if (error) throw InputError(kKey, shown + ": " + error.message());
  files::create_directory(journal());
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
    : path_(path), unfinished_(path, kKey, UnfinishedDirectory::Parent::kExists) {
  unfinished_.enter();
  partial_ = unfinished_.path();
}

OutputDirectory::~OutputDirectory() { discard(); }

fs::path OutputDirectory::journal() const { return partial_ / kJournalDirectory; }

void OutputDirectory::close_journal() {
  if (!rights_.owner.job_id.empty()) {
    write_output_owner(partial_ / kReportDirectory, rights_.owner);
  }
  // The journal is renamed first. If this ends half-way, no partial journal is left, which a later
  // run would take for damage.
  const fs::path removed = partial_ / kRemovedJournal;
  files::remove_all(removed);
  files::rename(journal(), removed);
  files::remove_all(removed);
}

void OutputDirectory::discard() {
  const std::lock_guard<std::mutex> guard(mutex_);
  if (settled_ || !unfinished_.directory()) return;
  const UnfinishedDirectory& output = unfinished_;
  // Files may be written meanwhile, for ever if a thread or rank keeps adding some. A later job's
  // directory of the same name stays.
  constexpr int kMaxAttempts = 100;
  for (int attempt = 0; attempt < kMaxAttempts; ++attempt) {
    if (!output.parent().holds(output.partial_name(), output.directory())) return;
    if (!trim_unfinished(output.parent(), output.partial_name(), output.directory())) return;
  }
}

void OutputDirectory::stop() {
  mark_stopped(unfinished_.directory().descriptor(), true);
  discard();
}

bool OutputDirectory::stopped() const {
  // The open directory is checked, because it may have lost its name.
  struct stat status {};
  return ::fstat(unfinished_.directory().descriptor(), &status) != 0 ||
         (status.st_mode & kStopped) != 0;
}

void OutputDirectory::leave() {
  const std::lock_guard<std::mutex> guard(mutex_);
  settled_ = true;
}

void OutputDirectory::check_replaceable(const fs::path& path, bool overwrite) const {
  if (const auto fault = output_fault(path, overwrite, path_)) {
    throw InputError(kKey, fault->what);
  }
  require_covered(path);
}

void OutputDirectory::require_covered(const fs::path& path) const {
  const std::optional<OutputOwner> mark = owner_of_output(path);
  if (!fs::exists(fs::symlink_status(path)) || rights_.cover(mark)) return;
  throw InputError(kKey, path_.string() + " " + ownership_fault(mark.value_or(OutputOwner{}).name));
}

void OutputDirectory::replace() {
  const UnfinishedDirectory& output = unfinished_;
  const PinnedDirectory before = output.parent().enter(output.name());
  // A typing error in the path must not destroy other files, whatever has come there meanwhile.
  const fs::path old = before ? before.path() : output.beside(output.name());
  if (const auto fault = replacement_fault(old, /*overwrite=*/true, path_)) {
    throw InputError(kKey, fault->what);
  }
  require_covered(old);
  const fs::path left = exchange(output, before);
  output.require_name(output.name());
  settled_ = true;
  if (!output.parent().holds(left, before)) return;
  std::error_code error = empty_directory(before.path());
  if (!error) error = remove_empty_directory(output.parent(), left);
  if (!error) return;
  fmt::print(stderr, "warning: {}, the model that was there before, cannot be removed: {}\n",
             shown_path(output.beside(left)), error.message());
}

void OutputDirectory::commit() {
  const std::lock_guard<std::mutex> guard(mutex_);
  const UnfinishedDirectory& output = unfinished_;
  const fs::path complete = output.beside(output.name());
  sync_directory(partial_);
  output.require_name(output.partial_name());
  try {
    if (overwrite_ && fs::exists(fs::symlink_status(complete))) {
      replace();
    } else {
      std::error_code error;
      files::rename_to_free_name(output.beside(output.partial_name()), complete, error);
      if (error == std::errc::file_exists) check_replaceable(complete, overwrite_);
      if (error) throw cannot_write(kKey, path_, error.value());
      output.require_name(output.name());
      settled_ = true;
    }
  } catch (const InputError& fault) {
    const std::string partial = partial_path(path_).string();
    throw InputError(kKey, fault.description() + "; the complete output stays in " + partial +
                               ": then run the job again, which computes nothing, or rename " +
                               partial);
  }
  sync_directory(output.parent().path());
}

}  // namespace dotresize
