#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "dotresize/v1/jobs.pb.h"
#include "job/sweep/sweep_plan.h"
#include "job/sweep/sweep_results.h"

namespace dotresize {

struct SweepRunOptions {
  int at_once = 0;  ///< jobs; 0: as many as there are cores and memory for
  /// An existing directory in memory for what the ranks of a job send each other; empty: OpenMPI's
  /// own choice.
  std::filesystem::path shared_memory = {};
  /// Whether jobs that may run on GPUs have some; not set: if this process sees some.
  std::optional<bool> gpus = {};
};

/// Hears how far a sweep is, on the thread that called run_sweep.
class SweepObserver {
 public:
  virtual ~SweepObserver() = default;
  /// Of the whole sweep.
  virtual void show(const v1::Progress& progress) = 0;
  /// A job has ended: its id, result and time.
  virtual void print(const std::string& line) = 0;
  /// Several times a second.
  virtual void tick() = 0;
};

/// How many jobs of the sweep run side by side: their ranks have a core each, and their memory is
/// there. On GPUs one: throws InputError if more are asked for.
int jobs_at_once(const SweepPlan& plan, const SweepRunOptions& options);

/// Why no sweep can have this directory, which follows its name in a sentence; empty if one can.
std::string sweep_directory_fault(const std::filesystem::path& dir);

/// Runs the jobs of the sweep that its directory does not have yet, and brings `rows` (rows_of) up
/// to date with each. One job evaluates the dense model, and one of
/// those with common statistics saves them; the others wait for that. Returns the exit code: 0 if
/// no job has failed. Throws InputError if the directory is not that of a sweep, or another sweep
/// is running there.
int run_sweep(const SweepPlan& plan, const SweepRunOptions& options, std::vector<SweepRow>& rows,
              SweepObserver& observer);

}  // namespace dotresize
