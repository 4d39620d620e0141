#include <filesystem>
#include <iostream>
#include <memory>

#include "base/environment.h"
#include "base/human_text.h"
#include "base/program.h"
#include "client/sweep_plan.h"
#include "client/sweep_results.h"
#include "client/sweep_run.h"
#include "client/verb.h"

namespace dotresize {
namespace {

struct SweepOptions {
  SweepRequest request;
  SweepRunOptions run;
  bool dry_run = false;
  bool pareto = false;
};

/// What will be run, before it is.
std::string summary_of(const SweepPlan& plan, const SweepOptions& options) {
  std::string text = counted(plan.combinations, "combination") + ", " +
                     counted(std::ssize(plan.jobs), "different job") + ", " +
                     std::to_string(jobs_at_once(plan, options.run)) + " at a time\n";
  int64_t without = 0;
  for (const SweepJob& job : plan.jobs) without += job.statistics.empty() ? 1 : 0;
  if (without > 0) {
    text +=
        counted(without, "job") +
        " without statistics in common: with the activations compressed, or alone with a basis "
        "or a calibration, each takes its own (calibration.activations: original shares them)\n";
  }
  return text;
}

int sweep(const SweepOptions& options, const CommonOptions& common) {
  const SweepPlan plan = plan_sweep(options.request);
  std::vector<SweepRow> rows = rows_of(plan);
  std::cerr << summary_of(plan, options);
  int exit_code = kExitOk;
  if (!options.dry_run && !plan.jobs.empty()) {
    worker_program();  // before anything is written
    exit_code = run_sweep(plan, options.run, rows);
  }
  compare_rows(plan, rows);
  std::cout << (common.json() ? sweep_json(plan, rows) : sweep_table(plan, rows, options.pareto))
            << std::flush;
  if (!plan.jobs.empty()) return exit_code;
  std::cerr << "dotresize: error: no combination makes a job\n";  // stdout has its document
  return kExitBadData;
}

}  // namespace

Verb add_sweep_verb(CLI::App& app, CommonOptions& common) {
  CLI::App& command =
      *app.add_subcommand("sweep", "Compress here with all combinations of settings, and compare");
  auto options = std::make_shared<SweepOptions>();
  command.add_option("SWEEP", options->request.file, "Job file with a section sweep")
      ->required()
      ->type_name("");
  add_set_option(command, options->request.changes);
  command.add_option("--parallel", options->run.at_once, "Jobs at a time (default: what fits)")
      ->type_name("N")
      ->check(CLI::Range(1, 1024).description(""));
  command.add_flag("--pareto", options->pareto,
                   "Show the front alone: no other result has fewer bytes and less perplexity");
  command.add_flag("--dry-run", options->dry_run, "Run nothing; show what is there");
  add_output_option(command, common);
  command.group("Without a server");
  command.footer(
      "Examples:\n"
      "  dotresize sweep examples/sweep.yaml\n"
      "  dotresize sweep examples/sweep.yaml --pareto    once more: what is done is not run "
      "again\n");
  return {&command, [options, &common] { return sweep(*options, common); }};
}

}  // namespace dotresize
