#pragma once

#include <vector>

#include "client/sweep_plan.h"
#include "client/sweep_results.h"

namespace dotresize {

struct SweepRunOptions {
  int at_once = 0;  ///< jobs; 0: as many as there are cores and memory for
};

/// How many jobs of the sweep run side by side: their ranks have a core each, and their memory is
/// there. On GPUs one.
int jobs_at_once(const SweepPlan& plan, const SweepRunOptions& options);

/// Runs the jobs of the sweep that its directory does not have yet, with progress on stderr, and
/// brings `rows` (rows_of) up to date with each. One job evaluates the dense model, and one of
/// those with common statistics saves them; the others wait for that. Returns the exit code: 0 if
/// no job has failed. Throws InputError if the directory is not that of a sweep, or another sweep
/// is running there.
int run_sweep(const SweepPlan& plan, const SweepRunOptions& options, std::vector<SweepRow>& rows);

}  // namespace dotresize
