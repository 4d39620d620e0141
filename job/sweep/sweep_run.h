#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/files/output_owner.h"
#include "dotresize/v1/jobs.pb.h"
#include "job/sweep/sweep_plan.h"
#include "job/sweep/sweep_results.h"

namespace dotresize {

struct SweepRunOptions {
  int at_once = 0;  ///< jobs at a time; 0: as many as cores and memory allow
  /// Existing directory in memory for the messages between the ranks of a job; empty: OpenMPI's
  /// default.
  std::filesystem::path shared_memory = {};
  /// Jobs that may run on GPUs have some; absent: decided by the GPUs that this process sees.
  std::optional<bool> gpus = {};
  OutputRights rights = {};  ///< over the sweep's directory, if it exists
};

/// Observer of a sweep's progress, called on the thread that called run_sweep.
class SweepObserver {
 public:
  virtual ~SweepObserver() = default;
  /// Reports the progress of the whole sweep.
  virtual void show(const v1::Progress& progress) = 0;
  /// Reports the end of a job: id, result and time.
  virtual void print(const std::string& line) = 0;
  /// Called several times a second.
  virtual void tick() = 0;
};

/// Number of jobs run side by side: options.at_once, or as many as have a core for each rank and
/// enough memory. 1 on GPUs; throws InputError if more are asked for there.
int jobs_at_once(const SweepPlan& plan, const SweepRunOptions& options);

/// Error text, to follow the directory's name, if no sweep can have it; empty if one can.
std::string sweep_directory_fault(const std::filesystem::path& dir);

/// Runs the jobs of the sweep whose results its directory does not have yet, and updates `rows`
/// (rows_of) after each. One job evaluates the dense model, and one of those with shared statistics
/// saves them; jobs that need either wait. Returns the exit code: 0 if no job has failed. Throws
/// InputError if the directory does not belong to a sweep, if the rights do not cover it, or if
/// another sweep is running there.
int run_sweep(const SweepPlan& plan, const SweepRunOptions& options, std::vector<SweepRow>& rows,
              SweepObserver& observer);

}  // namespace dotresize
