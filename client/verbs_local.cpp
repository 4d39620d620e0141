#include <unistd.h>

#include <filesystem>
#include <iostream>
#include <memory>
#include <optional>
#include <utility>

#include "base/child_process.h"
#include "base/environment.h"
#include "base/errors.h"
#include "base/program.h"
#include "client/json_output.h"
#include "client/verb.h"
#include "job/plan/hardware.h"
#include "job/plan/plan_table.h"
#include "job/plan/time_estimate.h"
#include "job/spec/command_options.h"
#include "job/spec/job_file.h"

namespace dotresize {
namespace {

namespace fs = std::filesystem;

struct PlannedJob {
  ModelConfig model;
  ResolvedJob job;
  ShardPlan plan;
  std::optional<TimeEstimate> time;
};

/// As the job would run on the hardware, in place of what is here.
ResolvedJob resolve_on_hardware(const v1::JobSpec& spec, const ModelConfig& model,
                                const v1::Hardware& hardware) {
  const int ranks = spec.resources().has_ranks() ? static_cast<int>(spec.resources().ranks()) : 1;
  const LaunchFacts launch = launch_facts(hardware, ranks);
  const std::optional<DeviceKind> asked = asked_device(spec);
  if (asked && *asked != launch.devices.device) {
    throw InputError("--hardware", "is a file of device: " + to_string(launch.devices.device) +
                                       ", the job asks for " + to_string(*asked));
  }
  return resolve_job(spec, model, launch);
}

/// `hardware_file`: for the time; may be empty.
PlannedJob plan_job(const std::string& job_file, const std::string& hardware_file = {}) {
  const v1::JobSpec spec = read_job_file(job_file);
  PlannedJob planned;
  planned.model = read_model_config(spec.model().path());
  std::optional<v1::Hardware> hardware;
  if (!hardware_file.empty()) hardware = read_hardware(hardware_file);
  planned.job = hardware ? resolve_on_hardware(spec, planned.model, *hardware)
                         : resolve_job(spec, planned.model);
  planned.plan = make_shard_plan(planned.model, planned.job);
  if (hardware) planned.time = estimate_time(planned.model, planned.job, planned.plan, *hardware);
  return planned;
}

void print_plan(const PlannedJob& planned, const CommonOptions& common) {
  const auto print = common.json() ? plan_to_json : plan_table;
  std::cout << print(planned.model, planned.job, planned.plan, planned.time) << std::endl;
}

struct PlanOptions {
  std::string job_file;
  std::string hardware;
};

int plan(const PlanOptions& options, const CommonOptions& common) {
  print_plan(plan_job(options.job_file, options.hardware), common);
  return kExitOk;
}

struct RunOptions {
  std::string job_file;
  std::string trace;
  bool fresh = false;
};

int run(const RunOptions& options, const CommonOptions& common) {
  const PlannedJob planned = plan_job(options.job_file);
  std::vector<std::string> worker = {worker_program(), fs::absolute(options.job_file).string()};
  if (!options.trace.empty()) {
    worker.insert(worker.end(), {"--trace", fs::absolute(options.trace).string()});
  }
  if (options.fresh) worker.push_back("--fresh");
  print_plan(planned, common);
  dup2(STDERR_FILENO, STDOUT_FILENO);  // stdout has had its one document
  return run_program(launch_command(planned.job.ranks, {}, worker));
}

/// Becomes `dotresize-worker VERB ARGUMENTS`.
[[noreturn]] void exec_worker(const std::string& verb, const std::vector<std::string>& arguments,
                              const CommonOptions& common) {
  std::vector<std::string> command = {worker_program(), verb};
  if (common.json()) command.insert(command.end(), {"-o", "json"});
  command.insert(command.end(), arguments.begin(), arguments.end());
  exec_program(command);
}

/// Adds what all verbs of this file have to one that has its own options.
Verb finish_verb(CLI::App& command, CommonOptions& common, const std::string& examples,
                 std::function<int()> action) {
  add_output_option(command, common);
  command.group("Without a server");
  command.footer("Examples:\n" + examples);
  return {&command, std::move(action)};
}

void add_job_file_option(CLI::App& command, std::string& job_file) {
  command.add_option("JOB", job_file, "Job file (YAML or JSON)")->required()->type_name("");
}

Verb plan_verb(CLI::App& app, CommonOptions& common) {
  CLI::App& command =
      *app.add_subcommand("plan", "Show what each rank would hold, and the result's size");
  auto options = std::make_shared<PlanOptions>();
  add_job_file_option(command, options->job_file);
  command
      .add_option("--hardware", options->hardware,
                  "How fast a machine is (YAML): also show how long the job takes on it")
      ->type_name("FILE");
  return finish_verb(command, common,
                     "  dotresize plan job.yaml\n"
                     "  dotresize plan job.yaml -o json\n"
                     "  dotresize plan job.yaml --hardware examples/hardware/v100x8.yaml\n",
                     [options, &common] { return plan(*options, common); });
}

Verb run_verb(CLI::App& app, CommonOptions& common) {
  CLI::App& command = *app.add_subcommand("run", "Compress here with mpirun, without a server");
  auto options = std::make_shared<RunOptions>();
  add_job_file_option(command, options->job_file);
  command
      .add_option("--trace", options->trace,
                  "Timeline of all ranks to write, for chrome://tracing and Perfetto")
      ->type_name("FILE");
  command.add_flag("--fresh", options->fresh,
                   "Start anew even if an interrupted run of the job has left a journal");
  return finish_verb(command, common,
                     "  dotresize run examples/docs-llama/job.yaml\n"
                     "  dotresize run job.yaml --trace trace.json\n",
                     [options, &common] { return run(*options, common); });
}

Verb eval_verb(CLI::App& app, CommonOptions& common) {
  CLI::App& command =
      *app.add_subcommand("eval", "Measure perplexity and latency of models, side by side");
  auto request = std::make_shared<EvalRequest>();
  add_eval_options(command, *request);
  return finish_verb(
      command, common,
      "  dotresize eval out/docs-llama-80 --text evaluation.txt\n"
      "  dotresize eval examples/docs-llama out/docs-llama-80 --tokens evaluation.safetensors\n"
      "  dotresize eval examples/docs-llama out/docs-llama-80 --latency --runtime transformers\n",
      [request, &common]() -> int { exec_worker("eval", eval_arguments(*request), common); });
}

Verb verify_verb(CLI::App& app, CommonOptions& common) {
  CLI::App& command = *app.add_subcommand("verify", "Check a model that dotresize wrote");
  auto request = std::make_shared<VerifyRequest>();
  add_verify_options(command, *request);
  return finish_verb(
      command, common,
      "  dotresize verify out/docs-llama-80\n"
      "  dotresize verify out/docs-llama-80 --against examples/docs-llama --text evaluation.txt\n",
      [request, &common]() -> int { exec_worker("verify", verify_arguments(*request), common); });
}

}  // namespace

std::vector<Verb> add_local_verbs(CLI::App& app, CommonOptions& common) {
  return {
      run_verb(app, common),
      plan_verb(app, common),
      eval_verb(app, common),
      verify_verb(app, common),
  };
}

}  // namespace dotresize
