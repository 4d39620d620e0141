#pragma once

#include <string>

#include "client/local/planned_job.h"

namespace dotresize {

/// Fetches the job's remote inputs with progress on stderr, holds the copies in the cache, and puts
/// their paths into the job. Throws like TransferOutput::result.
void fetch_inputs(const PlanRequest& request, PlannedJob& planned);

/// Exit code for a failed transfer.
int exit_code_of(const TransferError& error);

/// An output that is made here and pushed to a remote place.
class RemoteOutput {
 public:
  RemoteOutput(const PlannedJob& planned, const RemoteCache& cache);

  /// Throws if the output exists remotely and may not be overwritten, or if another job's output
  /// waits here to be pushed.
  void require_free() const;
  /// True if an earlier run of this very job has made the output and not pushed it.
  bool is_made() const;
  /// Creates the output's folder and its job file.
  void prepare() const;
  /// Pushes the output and removes it here. Returns its remote place, for people.
  std::string push() const;

 private:
  std::string url_;
  bool overwrite_;
  std::string job_;                 ///< job file with the paths of the copies
  std::filesystem::path path_;      ///< local path of the output
  std::filesystem::path job_file_;  ///< beside the output: identifies its job
};

}  // namespace dotresize
