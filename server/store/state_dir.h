#pragma once

#include <filesystem>
#include <optional>
#include <stdexcept>
#include <string>

#include "base/unique_fd.h"

namespace dotresize {

/// In a copy that no server has used yet: the canonical path of the original.
inline constexpr char kCopiedFromFile[] = "copied_from";

struct StateDirInUse : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// The directory in which one server keeps everything (layout: docs/server.md). Locked for the
/// object's lifetime, also against other processes.
class StateDir {
 public:
  /// Creates the directory (0700) if it is missing. Throws std::runtime_error if it belongs to
  /// another user or is open to others, StateDirInUse if another server holds it, or the original
  /// of which this is a copy (a server on the copy would end what still runs of the jobs, and start
  /// those that wait once more), std::system_error or std::filesystem::filesystem_error if it
  /// cannot be used. Removes tokenised texts that no job has used for thirty days.
  explicit StateDir(std::filesystem::path root);

  std::filesystem::path database() const { return root_ / "jobs.sqlite"; }
  /// Folder of a job that has been launched: job.json, log, attempt-N/.
  std::filesystem::path job(const std::string& id) const { return root_ / "jobs" / id; }
  /// The directory of what is being removed (server/store/trash.h).
  std::filesystem::path trash() const { return root_ / "trash"; }
  /// Where all jobs keep their tokenised texts: one that another job has tokenised is found again.
  std::filesystem::path tokens() const { return root_ / "tokens"; }
  /// What the worker reads.
  std::filesystem::path job_file(const std::string& id) const { return job(id) / "job.json"; }
  std::filesystem::path log(const std::string& id) const { return job(id) / "log"; }
  std::filesystem::path attempt(const std::string& id, int number) const {
    return job(id) / ("attempt-" + std::to_string(number));
  }
  const std::filesystem::path& root() const { return root_; }

  /// Why no more may be written there: its disk is nearly full. Empty if it is not.
  std::string space_fault() const;

  /// The HOST:PORT of the last run, if the file is well-formed.
  std::optional<std::string> last_endpoint() const;
  void write_endpoint(const std::string& endpoint) const;

 private:
  std::filesystem::path root_;
  UniqueFd lock_;
};

}  // namespace dotresize
