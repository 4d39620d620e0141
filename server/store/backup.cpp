#include "server/store/backup.h"

#include <SQLiteCpp/Backup.h>
#include <SQLiteCpp/Database.h>
#include <SQLiteCpp/Statement.h>

#include <system_error>

#include "base/errors.h"
#include "base/files/durable_file.h"
#include "server/store/drain.h"
#include "server/store/files.h"
#include "server/store/state_dir.h"

namespace dotresize {
namespace fs = std::filesystem;
namespace {

constexpr char kTable[] = "jobs.sqlite";
constexpr char kJobs[] = "jobs";
constexpr int kPatienceMs = 10'000;

int copy_table(const fs::path& from, const fs::path& to) {
  SQLite::Database source(from.string(), SQLite::OPEN_READWRITE, kPatienceMs);
  SQLite::Database copy(to.string(), SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE);
  SQLite::Backup(copy, source).executeStep(-1);
  return copy.execAndGet("SELECT count(*) FROM jobs").getInt();
}

/// Returns true for caches and locks, which are not copied.
bool is_left_out(const fs::path& name) { return name == "work" || name == "lock"; }

/// Ignores missing files, which belong to a job that was deleted meanwhile. Throws for any other
/// error.
void require_read(const fs::path& path, const std::error_code& error) {
  if (!error || error == std::errc::no_such_file_or_directory) return;
  throw fs::filesystem_error("cannot back up", path, error);
}

void copy_folder(const fs::path& from, const fs::path& to) {
  fs::create_directory(to);
  std::error_code error;
  fs::directory_iterator entry(from, error);
  require_read(from, error);
  while (entry != fs::directory_iterator()) {
    const fs::path path = entry->path();
    const fs::path target = to / path.filename();
    if (!is_left_out(path.filename())) {
      const fs::file_status status = fs::symlink_status(path, error);
      if (fs::is_directory(status)) copy_folder(path, target);
      if (fs::is_regular_file(status)) fs::copy_file(path, target, error);
      require_read(path, error);
    }
    entry.increment(error);
    require_read(from, error);
  }
  sync_directory(to);
}

}  // namespace

int back_up(const fs::path& state_dir, const fs::path& target) {
  if (!fs::exists(state_dir / kTable)) {
    throw InputError("--state", state_dir.string() + " has no " + kTable);
  }
  if (!fs::create_directory(target)) throw InputError(target.string() + " exists already");
  fs::permissions(target, fs::perms::owner_all);
  write_private_file(target / kCopiedFromFile, fs::canonical(state_dir).string());
  const int jobs = copy_table(state_dir / kTable, target / kTable);
  copy_folder(state_dir / kJobs, target / kJobs);
  if (fs::exists(state_dir / kDrainedFile)) {
    fs::copy_file(state_dir / kDrainedFile, target / kDrainedFile);
  }
  sync_directory(target);
  return jobs;
}

}  // namespace dotresize
