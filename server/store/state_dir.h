#pragma once

#include <atomic>
#include <filesystem>
#include <stdexcept>
#include <string>

#include "base/errors.h"
#include "base/files/unique_fd.h"

namespace dotresize {

/// Name of a file in a copy that no server has used yet; holds the canonical path of the original.
inline constexpr char kCopiedFromFile[] = "copied_from";

struct StateDirInUse : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Directory in which one server keeps everything (layout: docs/server.md). Locked for the object's
/// lifetime, also against other processes.
class StateDir {
 public:
  /// Creates the directory (0700) if it is missing. Throws std::runtime_error if it belongs to
  /// another user or is open to others; std::system_error or std::filesystem::filesystem_error if
  /// it cannot be used. Throws StateDirInUse if another server holds it, or holds the original of
  /// which this is an unused copy: a server on the copy would end the original's running jobs and
  /// start its queued jobs a second time. Removes tokenised texts that no job has used for thirty
  /// days.
  explicit StateDir(std::filesystem::path directory);

  static constexpr char kTable[] = "jobs.sqlite";
  static constexpr char kJobs[] = "jobs";

  const std::filesystem::path root;
  const std::filesystem::path database = root / kTable;
  /// File with the HOST:PORT of the last run, one line.
  const std::filesystem::path endpoint = root / "endpoint";
  /// Unix socket through which jobs on this machine call the server.
  const std::filesystem::path socket = root / "workers.sock";
  /// Directory of files to be removed (server/store/trash.h).
  const std::filesystem::path trash = root / "trash";
  /// Directory of tokenised texts, shared by all jobs: a text that one job has tokenised is reused.
  const std::filesystem::path tokens = root / "tokens";

  /// Folder of a launched job: job.json, log, attempt-N/.
  std::filesystem::path job(const std::string& id) const { return root / kJobs / id; }
  /// Job file that the worker reads.
  std::filesystem::path job_file(const std::string& id) const { return job(id) / "job.json"; }
  std::filesystem::path log(const std::string& id) const { return job(id) / "log"; }
  std::filesystem::path attempt(const std::string& id, int number) const {
    return job(id) / ("attempt-" + std::to_string(number));
  }

  /// A fault if the disk is nearly full.
  Verdict check_space() const;

 private:
  UniqueFd lock_;
};

/// Name of the file of Drain in a state directory.
inline constexpr char kDrainedFile[] = "drained";

/// Drain mode: while it is on, the server starts no jobs. A file keeps the mode across restarts.
/// Thread-safe.
class Drain {
 public:
  /// `file` exists while the server is drained.
  explicit Drain(std::filesystem::path file);

  bool is_on() const { return on_; }
  /// Throws std::runtime_error if the file cannot be made or removed.
  void set(bool on);

 private:
  const std::filesystem::path file_;
  std::atomic<bool> on_;
};

/// Copies a state directory, whose server may be running, into the new directory `target`: the job
/// table as of one moment, and each job's file, log and records of its attempts. `target` is a
/// state directory itself and appears whole, or not at all if reading or writing fails. Returns the
/// number of jobs. Throws InputError if there is no job table, or if `target` exists or lies in
/// `state_dir`; std::system_error or SQLite::Exception.
int back_up(const std::filesystem::path& state_dir, const std::filesystem::path& target);

}  // namespace dotresize
