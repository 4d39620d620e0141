#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "worker/commands/run/ranks/rank_links.h"

namespace dotresize {

struct JobCommandOptions {
  std::filesystem::path job_file;
  std::filesystem::path work_dir;    ///< cache of tokenised text; empty: beside the job file
  std::filesystem::path trace;       ///< file for the timeline of all ranks; empty: no timeline
  std::filesystem::path dense_loss;  ///< see RunEnvironment
  std::filesystem::path attempt;     ///< AttemptFile with the server to report to
                                     ///< (base/files/attempt_file.h); empty: see run_job_command
  int decomposition_threads = 0;     ///< see RunEnvironment
  bool fresh = false;                ///< ignores the journal of an earlier run
  std::vector<std::string> changes = {};  ///< changes to the job file, see job/spec/job_changes.h
  bool progress_records = false;          ///< ProgressRecords instead of ProgressLines
};

/// Runs `dotresize-worker JOB`: this process is one rank of one job. Without options.attempt it
/// reports to the server named by its environment, if there is one. Returns the exit code; a
/// failing rank ends all others through MPI_Abort and does not return. `transport`: replaces NCCL
/// or MPI between the ranks.
int run_job_command(const JobCommandOptions& options, const MakeTransport& transport = nullptr);

}  // namespace dotresize
