#include <unistd.h>

#include <filesystem>
#include <iostream>
#include <memory>

#include "client/json_output.h"
#include "client/programs.h"
#include "client/verb.h"
#include "job/errors.h"
#include "job/eval_options.h"
#include "job/job_file.h"
#include "job/mpirun.h"
#include "job/plan_table.h"
#include "job/verify_options.h"

namespace dotresize {
namespace {

namespace fs = std::filesystem;

struct PlannedJob {
  ModelConfig model;
  ResolvedJob job;
  ShardPlan plan;
};

PlannedJob plan_job(const std::string& job_file) {
  const v1::JobSpec spec = read_job_file(job_file);
  PlannedJob planned;
  planned.model = read_model_config(spec.model().path());
  planned.job = resolve_job(spec, planned.model);
  planned.plan = make_shard_plan(planned.model, planned.job);
  return planned;
}

void print_plan(const PlannedJob& planned, const CommonOptions& common) {
  if (common.json()) {
    std::cout << plan_to_json(planned.model, planned.job, planned.plan) << std::endl;
  } else {
    std::cout << plan_table(planned.model, planned.job, planned.plan) << std::endl;
  }
}

int plan(const std::string& job_file, const CommonOptions& common) {
  print_plan(plan_job(job_file), common);
  return kExitOk;
}

struct RunOptions {
  std::string job_file;
  std::string trace;
};

int run(const RunOptions& options, const CommonOptions& common) {
  const PlannedJob planned = plan_job(options.job_file);
  std::vector<std::string> worker = {worker_program(), fs::absolute(options.job_file).string()};
  if (!options.trace.empty()) {
    worker.insert(worker.end(), {"--trace", fs::absolute(options.trace).string()});
  }
  print_plan(planned, common);
  dup2(STDERR_FILENO, STDOUT_FILENO);  // stdout has had its one document
  return run_program(mpirun_command(planned.job.ranks, worker));
}

/// Becomes `dotresize-worker VERB ARGUMENTS`.
[[noreturn]] void exec_worker(const std::string& verb, const std::vector<std::string>& arguments,
                              const CommonOptions& common) {
  std::vector<std::string> command = {worker_program(), verb};
  if (common.json()) command.insert(command.end(), {"-o", "json"});
  command.insert(command.end(), arguments.begin(), arguments.end());
  exec_program(command);
}

/// A verb whose only argument is `argument`.
Verb simple_verb(CLI::App& app, CommonOptions& common, const std::string& name,
                 const std::string& description, const std::string& argument,
                 const std::string& argument_description, const std::string& examples,
                 int (*action)(const std::string&, const CommonOptions&)) {
  CLI::App& command = *app.add_subcommand(name, description);
  auto value = std::make_shared<std::string>();
  command.add_option(argument, *value, argument_description)->required()->type_name("");
  add_output_option(command, common);
  command.group("Without a server");
  command.footer("Examples:\n" + examples);
  return {&command, [value, action, &common] { return action(*value, common); }};
}

Verb run_verb(CLI::App& app, CommonOptions& common) {
  CLI::App& command = *app.add_subcommand("run", "Compress here with mpirun, without a server");
  auto options = std::make_shared<RunOptions>();
  command.add_option("JOB", options->job_file, "Job file (YAML or JSON)")
      ->required()
      ->type_name("");
  command
      .add_option("--trace", options->trace,
                  "Timeline of all ranks to write, for chrome://tracing and Perfetto")
      ->type_name("FILE");
  add_output_option(command, common);
  command.group("Without a server");
  command.footer(
      "Examples:\n"
      "  dotresize run examples/docs-llama/job.yaml\n"
      "  dotresize run job.yaml --trace trace.json\n");
  return {&command, [options, &common] { return run(*options, common); }};
}

Verb eval_verb(CLI::App& app, CommonOptions& common) {
  CLI::App& command =
      *app.add_subcommand("eval", "Measure perplexity and latency of models, side by side");
  auto request = std::make_shared<EvalRequest>();
  add_eval_options(command, *request);
  add_output_option(command, common);
  command.group("Without a server");
  command.footer(
      "Examples:\n"
      "  dotresize eval out/docs-llama-80 --text evaluation.txt\n"
      "  dotresize eval examples/docs-llama out/docs-llama-80 --tokens evaluation.safetensors\n"
      "  dotresize eval examples/docs-llama out/docs-llama-80 --latency --runtime transformers\n");
  return {&command,
          [request, &common]() -> int { exec_worker("eval", eval_arguments(*request), common); }};
}

Verb verify_verb(CLI::App& app, CommonOptions& common) {
  CLI::App& command = *app.add_subcommand("verify", "Check a model that dotresize wrote");
  auto request = std::make_shared<VerifyRequest>();
  add_verify_options(command, *request);
  add_output_option(command, common);
  command.group("Without a server");
  command.footer(
      "Examples:\n"
      "  dotresize verify out/docs-llama-80\n"
      "  dotresize verify out/docs-llama-80 --against examples/docs-llama --text evaluation.txt\n");
  return {&command, [request, &common]() -> int {
            exec_worker("verify", verify_arguments(*request), common);
          }};
}

}  // namespace

std::vector<Verb> add_local_verbs(CLI::App& app, CommonOptions& common) {
  return {
      run_verb(app, common),
      simple_verb(app, common, "plan", "Show what each rank would hold, and the result's size",
                  "JOB", "Job file (YAML or JSON)",
                  "  dotresize plan job.yaml\n  dotresize plan job.yaml -o json\n", plan),
      eval_verb(app, common),
      verify_verb(app, common),
  };
}

}  // namespace dotresize
