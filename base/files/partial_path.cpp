#include "base/files/partial_path.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <string>

#include "base/files/durable_file.h"
#include "base/files/file_changes.h"
#include "base/text/sha256.h"

namespace dotresize {
namespace fs = std::filesystem;
namespace {

constexpr char kPartial[] = ".partial";
constexpr char kReplaced[] = ".replaced";

fs::path with_suffix(const fs::path& path, const char* suffix) {
  fs::path name = path.has_filename() ? path : path.parent_path();
  name += suffix;
  return name;
}

}  // namespace

bool is_model_of_dotresize(const fs::path& dir) {
  std::error_code error;
  return fs::is_directory(fs::symlink_status(dir, error)) &&
         fs::is_regular_file(fs::symlink_status(dir / kReportDirectory / kReportFile, error));
}

bool is_complete_output(const fs::path& dir) {
  std::error_code error;
  return is_model_of_dotresize(dir) &&
         fs::is_regular_file(fs::symlink_status(dir / kSumsFile, error)) &&
         !fs::exists(fs::symlink_status(dir / kJournalDirectory, error));
}

bool is_empty_partial(const fs::path& partial) {
  std::error_code error;
  for (const fs::directory_entry& entry : entries_of(partial, error)) {
    std::error_code one;
    if (entry.path().filename() != kJournalDirectory || entry.is_symlink(one)) return false;
    // An owner file that was never completed, because the process was killed, is nobody's.
    const std::string unfinished = std::string(kOwnerOfOutput) + kTemporaryMark;
    std::error_code unreadable;
    for (const fs::directory_entry& file : entries_of(entry.path(), unreadable)) {
      const bool is_unfinished = file.path().filename().string().starts_with(unfinished) &&
                                 fs::is_regular_file(file.symlink_status(one));
      if (!is_unfinished) return false;
    }
    if (unreadable) return false;
  }
  return !error;
}

bool is_free_partial(const fs::path& partial) {
  std::error_code error;
  const fs::file_status status = fs::symlink_status(partial, error);
  if (!fs::exists(status)) return true;
  return fs::is_directory(status) &&
         (fs::is_empty(partial, error) || is_model_of_dotresize(partial) ||
          fs::is_directory(fs::symlink_status(partial / kJournalDirectory, error)));
}

fs::path partial_path(const fs::path& output) { return with_suffix(output, kPartial); }

fs::path replaced_path(const fs::path& output) { return with_suffix(output, kReplaced); }

std::error_code empty_directory(const fs::path& dir, const fs::path& kept) {
  std::error_code error;
  std::error_code failed;  // the last removal that failed
  for (const fs::directory_entry& file : entries_of(dir, error)) {
    std::error_code one;
    if (file.path() != kept) files::remove_all(file.path(), one);
    if (one) failed = one;
  }
  return error ? error : failed;
}

std::error_code trim_unfinished(const PinnedDirectory& parent, const fs::path& name,
                                const PinnedDirectory& partial) {
  if (is_complete_output(partial.path())) return {};
  const fs::path journal = partial.path() / kJournalDirectory;
  std::error_code error = empty_directory(partial.path(), journal);
  if (error) return error;
  bool is_marked = false;    // a file says whose journal it is
  bool has_entries = false;  // beside such files
  std::error_code unreadable;
  for (const fs::directory_entry& file : entries_of(journal, unreadable)) {
    const fs::path entry = file.path().filename();
    const bool is_mark = entry == kJournalOfJob || entry == kOwnerOfOutput;
    is_marked = is_marked || is_mark;
    has_entries = has_entries || (entry.extension() == ".json" && !is_mark);
  }
  if (is_marked && has_entries) return {};
  // The owner file goes last, because another rank may still write, and this process may be killed.
  if (!unreadable) error = empty_directory(journal, journal / kOwnerOfOutput);
  if (!error) error = empty_directory(partial.path());
  return error || !parent.holds(name, partial) ? error : remove_empty_directory(parent, name);
}

std::error_code remove_empty_directory(const PinnedDirectory& parent, const fs::path& name) {
  if (::unlinkat(parent.descriptor(), name.c_str(), AT_REMOVEDIR) == 0) return {};
  return {errno, std::generic_category()};
}

int64_t size_of_directory(const fs::path& dir) {
  int64_t bytes = 0;
  std::error_code error;
  fs::recursive_directory_iterator file(dir, fs::directory_options::skip_permission_denied, error);
  while (!error && file != fs::recursive_directory_iterator()) {
    std::error_code one;
    const bool counts = fs::is_regular_file(file->symlink_status(one));
    const uintmax_t size = counts ? file->file_size(one) : 0;
    if (!one) bytes += static_cast<int64_t>(size);
    file.increment(error);
  }
  return bytes;
}

bool is_unfinished_output(const fs::path& path) {
  const std::string name = path.filename().string();
  return name.ends_with(kPartial) || name.ends_with(kReplaced);
}

}  // namespace dotresize
