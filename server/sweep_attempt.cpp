#include "server/sweep_attempt.h"

#include <fmt/format.h>

#include <iostream>
#include <string>
#include <vector>

#include "base/environment.h"
#include "base/errors.h"
#include "base/failure.h"
#include "base/parse_number.h"
#include "base/program.h"
#include "job/spec/sweep_file.h"
#include "job/sweep/sweep_plan.h"
#include "job/sweep/sweep_results.h"
#include "job/sweep/sweep_run.h"
#include "server/sweep_heartbeats.h"

namespace dotresize {
namespace {

std::string failures_of(const std::vector<SweepRow>& rows, size_t jobs) {
  int failed = 0;
  std::string first;
  for (const SweepRow& row : rows) {
    if (row.state != SweepState::kFailed) continue;
    if (++failed == 1) first = row.id + ": " + row.reason;
  }
  return fmt::format("{} of {} jobs failed; the first, {}", failed, jobs, first);
}

/// Tells the server and the log why the sweep fails.
int fail(SweepHeartbeats& heartbeats, const char* code, int exit_code, const std::string& message) {
  std::cerr << "dotresize-server: error: " << message << std::endl;
  heartbeats.report_failure({code, -1, host_name(), "", message});
  return exit_code;
}

int run(SweepHeartbeats& heartbeats, const std::string& file, int parallel) {
  const SweepPlan plan = plan_sweep(open_sweep_file(file));
  std::cout << sweep_summary(plan, parallel) << std::flush;
  if (plan.jobs.empty()) throw InputError("no combination makes a job any more");
  std::vector<SweepRow> rows = rows_of(plan);
  const int exit_code = run_sweep(plan, {parallel}, rows, heartbeats);
  if (exit_code != kExitJobFailed) return exit_code;
  return fail(heartbeats, kRankFailed, exit_code, failures_of(rows, plan.jobs.size()));
}

}  // namespace

int run_sweep_attempt(int argc, char** argv) {
  const auto parallel = argc == 4 ? parse_number<int>(argv[3]) : std::nullopt;
  if (parallel.value_or(0) < 1) {
    std::cerr << "dotresize-server sweep is started by dotresize-server alone\n";
    return kExitUsage;
  }
  SweepHeartbeats heartbeats(take_attempt_identity());
  try {
    return run(heartbeats, argv[2], *parallel);
  } catch (const InputError& error) {
    return fail(heartbeats, kInvalidInput, kExitBadData, error.what());
  } catch (const std::exception& error) {
    return fail(heartbeats, kRankFailed, kExitJobFailed, error.what());
  }
}

}  // namespace dotresize
