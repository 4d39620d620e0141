#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "base/process/program.h"
#include "client/display/progress_display.h"
#include "client/verbs/verb.h"
#include "job/spec/sweep_file.h"
#include "job/sweep/sweep_plan.h"
#include "job/sweep/sweep_results.h"
#include "job/sweep/sweep_run.h"

namespace dotresize {
namespace {

struct SweepOptions {
  std::string file;
  std::vector<std::string> changes;  ///< changes to its job
  SweepRunOptions run;
  bool dry_run = false;
  bool pareto = false;
};

class SweepDisplay final : public SweepObserver {
 public:
  void show(const v1::Progress& progress) override { display_.show(progress); }
  void print(const std::string& line) override { display_.print(line); }
  void tick() override { display_.tick(); }

 private:
  ProgressDisplay display_;
};

int sweep(const SweepOptions& options, const CommonOptions& common) {
  const SweepPlan plan = plan_sweep(open_sweep_file(options.file, options.changes));
  std::vector<SweepRow> rows = rows_of(plan);
  std::cerr << sweep_summary(plan, jobs_at_once(plan, options.run));
  int exit_code = kExitOk;
  if (!options.dry_run && !plan.jobs.empty()) {
    worker_program();  // throws before anything is written
    SweepDisplay display;
    exit_code = run_sweep(plan, options.run, rows, display);
  }
  compare_rows(plan, rows);
  if (common.json()) {
    std::cout << sweep_json(plan, rows);
  } else if (options.dry_run) {
    std::cout << sweep_jobs_table(plan, rows);
  } else {
    std::cout << sweep_table(plan, rows, options.pareto);
  }
  std::cout << std::flush;
  if (!plan.jobs.empty()) return exit_code;
  std::cerr << "dotresize: error: no combination makes a job\n";  // stdout has the document
  return kExitBadData;
}

}  // namespace

Verb add_sweep_verb(CLI::App& app, CommonOptions& common) {
  CLI::App& command =
      *app.add_subcommand("sweep", "Compress with all combinations of settings, and compare");
  auto options = std::make_shared<SweepOptions>();
  add_argument(command, "SWEEP", options->file, "Job file with a section sweep");
  add_set_option(command, options->changes);
  add_value(command, "--parallel", "N", options->run.at_once,
            "Number of jobs at a time (default: as many as fit)")
      ->check(CLI::Range(1, 1024).description(""));
  CLI::Option* pareto = command.add_flag(
      "--pareto", options->pareto,
      "Show only the Pareto front: no other result is better in bytes and perplexity");
  command.add_flag("--dry-run", options->dry_run, "Run nothing; show what would be run")
      ->excludes(pareto);
  add_output_option(command, common);
  command.group("Without a server");
  command.footer(
      "Examples:\n"
      "  dotresize sweep examples/sweep.yaml\n"
      "  dotresize sweep examples/sweep.yaml --pareto    once more: finished jobs are not "
      "repeated\n");
  return {&command, [options, &common] { return sweep(*options, common); }};
}

}  // namespace dotresize
