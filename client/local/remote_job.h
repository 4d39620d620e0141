#pragma once

#include <string>

#include "client/local/planned_job.h"

namespace dotresize {

/// Fetches what the job reads from elsewhere, with progress on stderr, holds it in the cache, and
/// puts the copies in its place. Throws as TransferOutput::result.
void fetch_inputs(const PlanRequest& request, PlannedJob& planned);

/// The exit code for a transfer that has failed.
int exit_code_of(const TransferError& error);

/// An output that is made here and pushed elsewhere.
class RemoteOutput {
 public:
  RemoteOutput(const PlannedJob& planned, const RemoteCache& cache);

  /// Refuses an output that exists there, and one of another job that waits here to be pushed.
  void require_free() const;
  /// Whether an earlier run of this very job has made it, and has not pushed it.
  bool is_made() const;
  /// Makes room for it.
  void prepare() const;
  /// Pushes it and removes it here. Returns where it lies, for people.
  std::string push() const;

 private:
  std::string url_;
  bool overwrite_;
  std::string job_;                 ///< as a job file, with the copies that it reads
  std::filesystem::path path_;      ///< where it is made
  std::filesystem::path job_file_;  ///< beside it: of which job it is
};

}  // namespace dotresize
