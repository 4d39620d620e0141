#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "server/launch/attempt.h"

namespace dotresize {

/// State of one of our batch jobs as Slurm reports it.
struct SlurmJob {
  int64_t id = 0;
  std::string name;     ///< begins with kSlurmNamePrefix
  std::string state;    ///< full name: "RUNNING"
  int restarts = 0;     ///< number of requeues by Slurm
  int wait_status = 0;  ///< the batch script's, as of waitpid
  std::string reason;   ///< reason why it waits
};

/// Name prefix of the batch jobs that this program submits.
inline constexpr char kSlurmNamePrefix[] = "dotresize-";

/// Command that lists all jobs of this user that Slurm's controller knows, including recently ended
/// ones.
std::vector<std::string> squeue_command();
/// Parses squeue's output; returns our jobs. Throws std::runtime_error for malformed output.
std::vector<SlurmJob> parse_squeue(const std::string& text);

/// Command that lists the jobs of these names in Slurm's accounting, for jobs that the controller
/// has forgotten.
std::vector<std::string> sacct_command(const std::vector<std::string>& names);
/// Parses sacct's output, which has no `restarts` and no `reason`. Throws std::runtime_error for
/// malformed output.
std::vector<SlurmJob> parse_sacct(const std::string& text);

/// True if no process of the job is left or will be started.
bool has_ended(const SlurmJob& job);

/// Status of the attempt that is the job's start number `restart`. An attempt that has ended has
/// the exit code of the batch script, or the failure if Slurm is the cause.
AttemptStatus status_of(const SlurmJob& job, int restart);

/// Explains a failed sbatch by the last line of its stderr: LAUNCH_FAILED if Slurm does not answer
/// at the moment, INVALID_INPUT if it refuses the job.
Failure submission_failure(const std::string& last_line);

}  // namespace dotresize
