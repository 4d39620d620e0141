#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "server/launch/attempt.h"

namespace dotresize {

/// What Slurm says of a batch job of ours.
struct SlurmJob {
  int64_t id = 0;
  std::string name;     ///< that we have given it
  std::string state;    ///< in full: "RUNNING"
  int restarts = 0;     ///< how often Slurm has queued it again
  int wait_status = 0;  ///< of the batch script, as of waitpid
  std::string reason;   ///< why it waits
};

/// How names begin of what this program has given to Slurm.
inline constexpr char kSlurmNamePrefix[] = "dotresize-";

/// Lists all jobs of this user that Slurm's controller knows, ended ones for some minutes too.
std::vector<std::string> squeue_command();
/// Our jobs in what it has printed. Throws std::runtime_error for anything else.
std::vector<SlurmJob> parse_squeue(const std::string& text);

/// Lists jobs of these names that Slurm's accounting knows, for those that the controller has
/// forgotten.
std::vector<std::string> sacct_command(const std::vector<std::string>& names);
/// Throws std::runtime_error for what is not its output. `restarts` and `reason` are not in it.
std::vector<SlurmJob> parse_sacct(const std::string& text);

/// Whether no process of the job is left or will be started.
bool has_ended(const SlurmJob& job);

/// How the attempt stands that is this job's after `restart` restarts. Of an end: the exit code of
/// the batch script, or the failure if Slurm is the cause.
AttemptStatus status_of(const SlurmJob& job, int restart);

/// Why sbatch has given Slurm no job, by the last line of its stderr: LAUNCH_FAILED if Slurm does
/// not answer at the moment, INVALID_INPUT if it refuses the job.
Failure submission_failure(const std::string& last_line);

}  // namespace dotresize
