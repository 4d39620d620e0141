#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "job/remote/localized_job.h"
#include "job/spec/job_file.h"

namespace dotresize {

/// Fetches the job's remote inputs with progress on stderr, holds the copies in the cache, and puts
/// their paths into the spec. `weights`: those of a remote model too. Throws like
/// TransferOutput::result.
std::vector<HeldCopy> fetch_inputs(JobFile& file, const RemoteCache& cache, bool weights);

/// Exit code for a failed transfer.
int exit_code_of(const TransferError& error);

/// An output that is made here and pushed to a remote place.
class RemoteOutput {
 public:
  /// `local` is the job `given` with the paths of the copies.
  RemoteOutput(const v1::JobSpec& given, const v1::JobSpec& local, const RemoteCache& cache);

  /// Throws if the output exists remotely and may not be overwritten, or if another job's output
  /// waits here to be pushed. Returns true if an earlier run of this very job has made the output
  /// and not pushed it.
  bool require_free() const;
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
