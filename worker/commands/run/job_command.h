#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "worker/commands/run/rank_links.h"

namespace dotresize {

struct JobCommandOptions {
  std::filesystem::path job_file;
  std::filesystem::path work_dir;    ///< where tokenised text is cached; empty: beside the job file
  std::filesystem::path trace;       ///< timeline of all ranks to write; empty: none
  std::filesystem::path dense_loss;  ///< as in RunEnvironment
  std::filesystem::path attempt;  ///< whose server it tells (base/attempt_file.h); empty: see below
  int decomposition_threads = 0;  ///< as in RunEnvironment
  bool fresh = false;             ///< does not go on from the journal of an earlier run
  std::vector<std::string> changes = {};  ///< of the job file, see job/spec/job_changes.h
  bool progress_records = false;          ///< as ProgressRecords, not ProgressLines
};

/// `dotresize-worker JOB`: this process is one rank of one job. Without options.attempt it tells
/// the server that its environment names, if it names one. Returns the exit code; a failing
/// rank ends all others through MPI_Abort instead of returning. `transport`: between the ranks, in
/// place of NCCL or MPI.
int run_job_command(const JobCommandOptions& options, const MakeTransport& transport = nullptr);

}  // namespace dotresize
