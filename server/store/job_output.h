#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "base/files/directory.h"
#include "dotresize/v1/jobs.pb.h"
#include "dotresize/v1/sweep.pb.h"
#include "server/store/job_store.h"
#include "server/store/state_dir.h"
#include "server/store/trash.h"

namespace dotresize {

inline constexpr char kModelCard[] = "README.md";  ///< model card in an output

/// Reads the regular file at a canonical absolute path without following links. Returns nullopt if
/// there is no such file or a link is on the way. Throws InputError if the file is larger than
/// `max_bytes`. `memory`: bytes that the caller's work then takes for each byte of the file.
std::optional<std::string> read_pinned_file(const std::filesystem::path& path, size_t max_bytes,
                                            size_t memory = 1);

/// The files that one job of this server has at its output path. `path` is the canonical path from
/// admission. If a link is now on the way, or the files belong to another job, nothing is touched.
class JobOutput {
 public:
  JobOutput(std::filesystem::path path, std::string job_id);

  /// True if this attempt of the job has completed the output; nullopt: any of its attempts.
  bool is_committed(std::optional<int> attempt = std::nullopt) const;
  /// Size of the unfinished output; 0 if there is none.
  int64_t unfinished_bytes() const;
  /// Removes the unfinished output except a journal from which the job can resume. Does nothing
  /// while another process holds the output's lock. Errors are logged.
  void trim() const;
  /// Moves the output to `trash` if any attempt of this job has completed it; otherwise the result
  /// is empty. Errors are logged.
  TrashedDirectory discard_committed(Trash& trash) const;
  /// Moves the unfinished output to `trash`. The result is empty if this job has none there, or if
  /// another process holds its lock. Errors are logged.
  TrashedDirectory discard(Trash& trash) const;

 private:
  /// Calls `body(parent directory, name in it, partial directory)` if the unfinished output belongs
  /// to this job and nobody else holds its lock.
  template <class Body>
  void with_partial(Body&& body) const;

  std::filesystem::path path_;
  std::string job_id_;
};

/// Everything a job has left at its output path, moved to the trash: the unfinished output, and a
/// completed output that still waits to be pushed.
struct DiscardedOutput {
  TrashedDirectory unfinished;
  TrashedDirectory unpushed;

  void remove();
};

/// Moves what this job has left at `output` to `trash`; files of other jobs stay.
DiscardedOutput discard_output(const v1::Job& job, const std::filesystem::path& output,
                               Trash& trash);

/// Deletes an ended job with its events, logs and unfinished output. Throws NOT_FOUND,
/// FAILED_PRECONDITION.
void remove_job(JobStore& store, const StateDir& state, Trash& trash, const std::string& id);

/// Throws FAILED_PRECONDITION unless `output` is absent, empty, or the directory of another sweep.
/// `output` is canonical except for its last name. A link there, or in place of one of the sweep's
/// folders, is refused.
void check_sweep_directory(const std::filesystem::path& output);

/// Reads results.json in the sweep's directory. Returns nullopt if it is absent or a link is on the
/// way. Throws InputError for malformed content.
std::optional<v1::SweepResults> read_sweep_results(const std::filesystem::path& output);

/// Reads the result of a succeeded job from the report in the directory `output`. Throws InputError
/// if the report is missing or malformed.
v1::JobResult result_of(const v1::Job& job, const std::string& output);

/// Reads the result of a sweep, which has taken `time`, from the results in its directory. Same
/// errors as result_of().
v1::JobResult sweep_result_of(const v1::Job& job, const std::string& output,
                              std::chrono::milliseconds time);

/// Copies report, model card and hashes of an output into the directory `kept`. Called before an
/// output that was pushed is removed. Throws std::filesystem::filesystem_error.
void keep_report(const std::filesystem::path& output, const std::filesystem::path& kept);

/// Returns the directory of a SUCCEEDED job's report and model card: its `output`, or, if that was
/// pushed, a directory in its state `folder`.
std::filesystem::path reported_in(const v1::Job& job, const std::filesystem::path& folder,
                                  const std::filesystem::path& output);

}  // namespace dotresize
