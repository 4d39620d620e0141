#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "job/plan/device.h"
#include "job/spec/requests.h"
#include "worker/commands/run/rank_process.h"

namespace dotresize {

/// Runs the program dotresize-worker: one rank of a job under mpirun (or alone), and the commands
/// that look at one model. `transport`: see run_job_command. Returns the exit code.
int run_worker(int argc, char** argv, const MakeTransport& transport = nullptr);

// The program's commands. Each returns the exit code.

struct JobCommandOptions {
  std::filesystem::path job_file;
  std::filesystem::path work_dir;    ///< cache of tokenised text; empty: beside the job file
  std::filesystem::path trace;       ///< file for the timeline of all ranks; empty: no timeline
  std::filesystem::path dense_loss;  ///< see RunEnvironment
  std::filesystem::path attempt;     ///< AttemptFile with the server to report to
                                     ///< (base/files/attempt_file.h); empty: see run_job_command
  /// Arguments of hold_directory() (base/files/confinement.h); empty: none
  std::pair<std::string, std::string> held;
  int decomposition_threads = 0;          ///< see RunEnvironment
  bool fresh = false;                     ///< ignores the journal of an earlier run
  std::vector<std::string> changes = {};  ///< changes to the job file, see job/spec/job_file.h
  bool progress_records = false;          ///< see ProgressPrinter
};

/// Runs `dotresize-worker JOB`: this process is one rank of one job. Without options.attempt it
/// reports to the server named by its environment, if there is one. A failing rank ends all others
/// through MPI_Abort and does not return. `transport`: replaces NCCL or MPI between the ranks.
int run_job_command(const JobCommandOptions& options, const MakeTransport& transport);

/// Runs `dotresize-worker eval`: reports the models' perplexity, divergence from a reference, and
/// latency as a table or a JSON document. Progress (ProgressPrinter) and warnings go to stderr.
int eval_command(const EvalRequest& asked, bool json, bool progress_records);

/// Runs `dotresize-worker verify DIR`: checks an output, with `against` also that it was made from
/// that source, and lists every problem. For the latter it compares the report's hashes of the
/// source's files. At full width it then compares the logits of both models over given or random
/// tokens, otherwise both models' perplexities with the reported ones, over the tokens of the job's
/// evaluation. Throws UsageError if tokens are needed and missing.
int verify_command(const VerifyRequest& request, bool json);

/// Runs `dotresize-worker probe`: prints what this installation finds on this machine as a JSON
/// document for `dotresize doctor`: version, driver, GPUs, CUDA module with NCCL, Python. A fault
/// is a text in it, empty if all is well.
int probe_command();

/// Runs `dotresize-worker self-test`, alone or as the ranks of mpirun: a job's start up to its
/// first work, and the self-test of devices and links, in the dtype of `compute_dtype: auto`. Rank
/// 0 prints the result. `asked`: absent means `auto`. `transport`: see run_job_command. A rank that
/// fails ends all others.
int self_test_command(std::optional<DeviceKind> asked, bool json, const MakeTransport& transport);

}  // namespace dotresize
