#include <fmt/format.h>

#include <cstdlib>
#include <iostream>
#include <optional>
#include <string>
#include <vector>

#include "base/errors.h"
#include "base/failure.h"
#include "base/files/attempt_file.h"
#include "base/files/confinement.h"
#include "base/process/environment.h"
#include "base/process/mutex.h"
#include "base/process/program.h"
#include "base/text/encodings.h"
#include "job/attempt/attempt_client.h"
#include "job/spec/sweep_file.h"
#include "job/sweep/sweep_plan.h"
#include "job/sweep/sweep_results.h"
#include "job/sweep/sweep_run.h"
#include "server/launch/subcommands.h"

namespace dotresize {
namespace {

/// Keeps the progress for the heartbeats, and writes to stdout, the job's log.
class AttemptObserver final : public SweepObserver {
 public:
  void show(const v1::Progress& progress) override {
    const Lock lock(mutex_);
    progress_ = progress;
  }
  void print(const std::string& line) override { std::cout << line << std::endl; }
  void tick() override {}

  v1::Progress progress() const {
    const Lock lock(mutex_);
    return progress_;
  }

 private:
  mutable Mutex mutex_;
  v1::Progress progress_ DOTRESIZE_GUARDED_BY(mutex_);
};

/// Reports the sweep's failure to the server and the log.
int fail(const AttemptFile& attempt, const char* code, int exit_code, const std::string& message) {
  std::cerr << "dotresize-server: error: " << message << std::endl;
  report_failure(attempt, {code, -1, host_name(), "", message});
  return exit_code;
}

int run(const AttemptFile& attempt, const std::string& file, const SweepRunOptions& options) {
  const SweepFile sweep = open_sweep_file(file);
  if (!attempt.roots.empty()) confine_process({attempt.roots.begin(), attempt.roots.end()});
  const SweepPlan plan = plan_sweep(sweep);
  std::cout << sweep_summary(plan, options.at_once) << std::flush;
  if (plan.jobs.empty()) throw InputError("no combination gives a valid job");
  std::vector<SweepRow> rows = rows_of(plan);
  AttemptObserver observer;
  const AttemptHeartbeats heartbeats(attempt, [&] { return observer.progress(); });
  const int exit_code = run_sweep(plan, options, rows, observer);
  if (exit_code != kExitJobFailed) return exit_code;
  int failed = 0;
  std::string first;
  for (const SweepRow& row : rows) {
    if (row.state != v1::SweepResults::Variant::failed) continue;
    if (++failed == 1) first = row.id + ": " + row.reason;
  }
  return fail(attempt, kRankFailed, exit_code,
              fmt::format("{} of {} jobs failed; the first, {}", failed, plan.jobs.size(), first));
}

}  // namespace

int run_sweep_attempt(int argc, char** argv) {
  const auto parallel = argc == 5 ? parse_number<int>(argv[3]) : std::nullopt;
  const std::optional<AttemptFile> attempt = attempt_from_environment();
  if (parallel.value_or(0) < 1 || !attempt) {
    std::cerr << "dotresize-server sweep can only be started by dotresize-server\n";
    return kExitUsage;
  }
  // The workers of the sweep's jobs do not call the server.
  ::unsetenv("DOTRESIZE_COORDINATOR");
  ::unsetenv("DOTRESIZE_ATTEMPT_TOKEN");
  try {
    return run(*attempt, argv[2], {*parallel, argv[4], {}, attempt->rights});
  } catch (const InputError& error) {
    return fail(*attempt, kInvalidInput, kExitBadData, error.what());
  } catch (const std::exception& error) {
    return fail(*attempt, kRankFailed, kExitJobFailed, error.what());
  }
}

}  // namespace dotresize
