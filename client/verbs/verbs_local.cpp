#include <fmt/format.h>

#include <filesystem>
#include <iostream>
#include <iterator>
#include <memory>
#include <optional>
#include <utility>

#include "base/errors.h"
#include "base/failure.h"
#include "base/process/child_process.h"
#include "base/process/environment.h"
#include "base/process/program.h"
#include "base/process/rank_start.h"
#include "base/text/human_text.h"
#include "client/display/worker_view.h"
#include "client/local/job_template.h"
#include "client/local/planned_job.h"
#include "client/local/remote_job.h"
#include "client/local/rewritten_model.h"
#include "client/verbs/verb.h"
#include "job/plan/check_files.h"
#include "job/spec/spec_paths.h"

namespace dotresize {
namespace {

namespace fs = std::filesystem;

struct PlanOptions {
  PlanRequest job;
  ManifestRequest manifest;
};

int plan(const PlanOptions& options, const CommonOptions& common) {
  PlannedJob planned = plan_job(options.job);
  // A plan for --hardware need not be runnable on this machine.
  if (options.job.hardware.empty()) require_runnable(planned, /*to_write=*/false);
  if (options.manifest.kind.empty()) {
    planned.alternatives = size_alternatives(planned.file.spec, planned.plan.model);
    std::cout << (common.json() ? plan_json(planned) : plan_text(planned)) << std::flush;
  } else {
    require_local_paths(planned.given);
    std::cerr << plan_warnings(planned);
    std::cout << job_manifest(planned, options.manifest, common.json()) << std::flush;
  }
  return kExitOk;
}

/// End of a worker.
struct WorkerEnd {
  int exit_code = kExitOk;
  std::string reason;  ///< first error that it has printed; empty: none
};

/// Runs `command`, which has `--progress json`, and shows its progress.
WorkerEnd run_worker(const std::vector<std::string>& command, const WorkerView::Options& options) {
  WorkerView view(options);
  const int exit_code = run_program(command, view);
  view.finish(exit_code);
  return {exit_code, view.reason()};
}

struct RunOptions {
  PlanRequest job;
  std::string trace;
  bool fresh = false;
  bool verbose = false;
};

/// Command that starts the ranks of a job, which exchange messages in `shared_memory`.
std::vector<std::string> job_command(const RunOptions& options, const PlannedJob& planned,
                                     const fs::path& shared_memory) {
  std::vector<std::string> worker = {worker_program(), fs::absolute(options.job.job_file).string(),
                                     "--progress", "json"};
  std::vector<std::string> changes = options.job.changes;
  std::ranges::move(changes_between(planned.given, planned.file.spec), std::back_inserter(changes));
  for (const std::string& change : changes) worker.insert(worker.end(), {"--set", change});
  if (!options.trace.empty()) {
    worker.insert(worker.end(), {"--trace", fs::absolute(options.trace).string()});
  }
  if (options.fresh) worker.push_back("--fresh");
  return launch_command(planned.plan.job.resources.ranks, shared_memory, worker);
}

/// Runs the ranks of a planned job. If the output is complete, the job has succeeded, however
/// mpirun has ended.
WorkerEnd run_ranks(const RunOptions& options, const CommonOptions& common,
                    const PlannedJob& planned) {
  const FinishedOutput output(planned);
  const SharedMemoryFolder shared_memory(planned.plan.job.resources.ranks);
  // With -o json stdout is for one document.
  WorkerEnd end = run_worker(job_command(options, planned, shared_memory.path()),
                             {.output_to_stderr = common.json(), .verbose = options.verbose});
  if (end.exit_code == kExitOk || !output.came_since()) return end;
  std::cerr << "warning: the ranks ended with exit code " << end.exit_code
            << " after the output was complete\n";
  return {};
}

/// Prints the one document of a run that has failed. Returns the exit code.
int fail_in_json(const WorkerEnd& end) {
  const char* code = end.exit_code == kExitCancelled ? "CANCELLED" : failure_code(end.exit_code);
  print_json(error_json(code,
                        end.reason.empty()
                            ? fmt::format("the ranks ended with exit code {}", end.exit_code)
                            : end.reason,
                        end.exit_code));
  return end.exit_code;
}

int run(const RunOptions& options, const CommonOptions& common) {
  PlannedJob planned = plan_job(options.job);
  const bool pushed = is_remote(planned.given.output().path());
  if (!options.fresh && !pushed && FinishedOutput(planned).is_there()) {
    if (common.json()) std::cout << plan_json(planned) << std::flush;
    std::cerr << "done already: " << planned.plan.job.output.path.string()
              << " is the complete output of this job\n";
    return kExitOk;
  }
  require_runnable(planned, /*to_write=*/true);
  const int ranks = planned.plan.job.resources.ranks;
  if (ranks > 1) require_program("mpirun");
  require_rank_start(ranks);
  if (is_remote(planned.given.model().path())) {
    // The weights are fetched only now, so that a faulty job fails early.
    PlanRequest request = options.job;
    request.for_run = true;
    planned = plan_job(request);
  }
  std::optional<RemoteOutput> output;
  if (pushed) {
    output.emplace(planned.given, planned.file.spec, options.job.remote);
  }
  const bool made = output && output->require_free();
  if (!common.json()) std::cout << plan_text(planned) << std::flush;
  if (!made) {
    if (output) output->prepare();
    const WorkerEnd end = run_ranks(options, common, planned);
    if (end.exit_code != kExitOk) return common.json() ? fail_in_json(end) : end.exit_code;
  }
  if (output) (common.json() ? std::cerr : std::cout) << "pushed to " << output->push() << "\n";
  if (common.json()) std::cout << plan_json(planned) << std::flush;
  return kExitOk;
}

std::vector<std::string> worker_command(const std::string& verb,
                                        const std::vector<std::string>& options,
                                        const std::vector<std::string>& arguments,
                                        const CommonOptions& common) {
  std::vector<std::string> command = {worker_program(), verb};
  if (common.json()) command.insert(command.end(), {"-o", "json"});
  command.insert(command.end(), options.begin(), options.end());
  command.insert(command.end(), arguments.begin(), arguments.end());
  return command;
}

/// Adds the options, examples and action that all verbs of this file have.
Verb finish_verb(CLI::App& command, CommonOptions& common, const std::string& examples,
                 std::function<int()> action) {
  add_output_option(command, common);
  command.group("Without a server");
  command.footer("Examples:\n" + examples);
  return {&command, std::move(action)};
}

/// Adds the options of the cache for remote models and texts.
void add_remote_options(CLI::App& command, RemoteCache& cache) {
  const fs::path home = user_cache_dir();
  if (!home.empty()) cache.directory = home / "remote";
  add_value(command, "--remote-cache", "DIR", cache.directory,
            "Directory for copies of models and texts from hf:// and s3://")
      ->envname("DOTRESIZE_REMOTE_CACHE")
      ->capture_default_str();
  command
      .add_option_function<std::string>(
          "--remote-cache-size",
          [&cache](const std::string& text) { cache.size = *parse_bytes(text); },
          "Largest size of these copies together (default: 200GiB)")
      ->type_name("SIZE")
      ->envname("DOTRESIZE_REMOTE_CACHE_SIZE")
      ->check([](const std::string& text) {
        return parse_bytes(text).value_or(0) > 0 ? ""
                                                 : "'" + text + "' is not a size such as 200GiB";
      });
}

/// Adds the job file, changes to it, and the cache of what it names elsewhere.
void add_job_options(CLI::App& command, PlanRequest& job) {
  add_argument(command, "JOB", job.job_file, "Job file (YAML or JSON)");
  add_set_option(command, job.changes);
  add_remote_options(command, job.remote);
}

Verb init_verb(CLI::App& app) {
  CLI::App& command = *app.add_subcommand("init", "Write a job file for a model, for you to edit");
  auto request = std::make_shared<TemplateRequest>();
  add_argument(command, "MODEL_DIR", request->model, "The dense model");
  CLI::Option* job = add_value(command, "JOB,--output", "FILE", request->job_file,
                               "File to write; it must not exist")
                         ->capture_default_str();
  CLI::Option* text =
      add_value(command, "--text", "FILE...", request->text, "Calibration text, UTF-8");
  add_value(command, "--tokens", "FILE", request->tokens,
            "Token file instead of text: a safetensors file with a tensor \"tokens\"")
      ->excludes(text);
  command.group("Without a server");
  command.footer(
      "Examples:\n"
      "  dotresize init models/llama --text wiki.txt\n"
      "  dotresize init models/llama llama-80.yaml --text wiki.txt books.txt\n");
  return {&command, [request, job] {
            // A job file's name may stand at the end of the texts.
            const std::string last = request->text.size() > 1 ? request->text.back() : "";
            const std::string extension = fs::path(last).extension();
            const bool json_job = extension == ".json" && !fs::exists(last);  // else a text
            if (job->count() == 0 && (extension == ".yaml" || extension == ".yml" || json_job)) {
              request->job_file = last;
              request->text.pop_back();
            }
            write_job_template(*request);
            std::cerr << "wrote " << request->job_file << "; next: dotresize plan "
                      << request->job_file << ", then dotresize run " << request->job_file << "\n";
            return kExitOk;
          }};
}

Verb plan_verb(CLI::App& app, CommonOptions& common) {
  CLI::App& command =
      *app.add_subcommand("plan", "Show the memory of each rank and the size of the result");
  auto options = std::make_shared<PlanOptions>();
  add_job_options(command, options->job);
  add_value(command, "--hardware", "FILE", options->job.hardware,
            "Rates of a machine (YAML): also show the time of the job on it");
  CLI::Option* manifest =
      add_value(command, "--manifest", "KIND", options->manifest.kind,
                "Print a manifest of the job instead; mpijob: for `kubectl create`")
          ->check(CLI::IsMember({"mpijob"}).description(""));
  add_value(command, "--template", "FILE", options->manifest.template_file,
            "MPIJob (YAML) to which the job is added (default: a built-in one)")
      ->needs(manifest);
  add_value(command, "--cpus", "N", options->manifest.cpus,
            "Processors of each rank in the cluster")
      ->check(CLI::Range(1, 1024).description(""))
      ->needs(manifest)
      ->capture_default_str();
  return finish_verb(command, common,
                     "  dotresize plan job.yaml\n"
                     "  dotresize plan job.yaml --set method.size=0.7 -o json\n"
                     "  dotresize plan job.yaml --hardware examples/hardware/v100x8.yaml\n"
                     "  dotresize plan job.yaml --manifest mpijob | kubectl create -f -\n",
                     [options, &common] { return plan(*options, common); });
}

Verb run_verb(CLI::App& app, CommonOptions& common) {
  CLI::App& command =
      *app.add_subcommand("run", "Compress on this machine with mpirun, without a server");
  auto options = std::make_shared<RunOptions>();
  add_job_options(command, options->job);
  add_value(command, "--trace", "FILE", options->trace,
            "Write a timeline of all ranks, for chrome://tracing and Perfetto");
  command.add_flag(
      "--fresh", options->fresh,
      "Start from the beginning even if an interrupted run of the job has left a journal");
  command.add_flag("--verbose", options->verbose, "Also show MPI's messages about a failure");
  return finish_verb(command, common,
                     "  dotresize run examples/docs-llama/job.yaml\n"
                     "  dotresize run job.yaml --set method.size=0.7 --set output.path=out/70\n"
                     "  dotresize run job.yaml --trace trace.json\n",
                     [options, &common] { return run(*options, common); });
}

/// Throws InputError if a model is not there.
void require_models(const std::vector<fs::path>& models) {
  for (const fs::path& model : models) {
    const std::string fault = model_directory_fault(model);
    if (!fault.empty()) throw InputError(fault);
  }
}

Verb eval_verb(CLI::App& app, CommonOptions& common) {
  CLI::App& command =
      *app.add_subcommand("eval", "Compare models: perplexity, latency, how they continue a text");
  auto request = std::make_shared<EvalRequest>();
  add_eval_options(command, *request);
  return finish_verb(
      command, common,
      "  dotresize eval out/docs-llama-80 --text evaluation.txt\n"
      "  dotresize eval examples/docs-llama out/docs-llama-80 --tokens evaluation.safetensors\n"
      "  dotresize eval out/docs-llama-80 --reference examples/docs-llama --text evaluation.txt\n"
      "  dotresize eval examples/docs-llama out/docs-llama-80 --latency --runtime transformers\n"
      "  dotresize eval examples/docs-llama out/docs-llama-80 --generate 'The module'\n",
      [request, &common] {
        require_models(request->models);
        if (!request->reference.empty()) require_models({request->reference});
        return run_worker(
                   worker_command("eval", {"--progress", "json"}, eval_arguments(*request), common),
                   {})
            .exit_code;
      });
}

Verb verify_verb(CLI::App& app, CommonOptions& common) {
  CLI::App& command = *app.add_subcommand("verify", "Check a model that dotresize wrote");
  auto request = std::make_shared<VerifyRequest>();
  add_verify_options(command, *request);
  return finish_verb(
      command, common,
      "  dotresize verify out/docs-llama-80\n"
      "  dotresize verify out/docs-llama-80 --against examples/docs-llama --text evaluation.txt\n",
      [request, &common]() -> int {
        require_models({request->dir});
        if (!request->against.empty()) require_models({request->against});
        exec_program(worker_command("verify", {}, verify_arguments(*request), common));
      });
}

Verb export_verb(CLI::App& app, CommonOptions& common) {
  CLI::App& command =
      *app.add_subcommand("export", "Write a model without maps in the format of another engine");
  auto request = std::make_shared<ExportRequest>();
  add_argument(command, "MODEL_DIR", request->model,
               "An output without maps, or any model of its families");
  add_value(command, "--to", "FORMAT", request->format,
            "gguf: one file for llama.cpp; nemotron-nas: a directory for vLLM")
      ->required()
      ->check(CLI::IsMember({kGguf, kNemotronNas}).description(""));
  add_value(command, "--type", "TYPE", request->type,
            "Type of the matrices of a gguf: f32, f16, bf16 or q8_0 (default: f16)")
      ->check(CLI::IsMember({"f32", "f16", "bf16", "q8_0"}).description(""));
  command
      .add_option("FILE", request->file,
                  "Output, which must not exist (default: NAME-TYPE.gguf, NAME-nemotron-nas)")
      ->type_name("");
  return finish_verb(command, common,
                     "  dotresize export out/stock --to gguf\n"
                     "  dotresize export out/stock small.gguf --to gguf --type q8_0\n"
                     "  dotresize export out/custom --to nemotron-nas\n",
                     [request, &common]() -> int {
                       request->json = common.json();
                       export_model(*request);
                     });
}

Verb vocabulary_verb(CLI::App& app, CommonOptions& common) {
  CLI::App& command =
      *app.add_subcommand("vocabulary", "Write a model without the tokens that a text needs least");
  auto request = std::make_shared<VocabularyRequest>();
  add_argument(command, "MODEL_DIR", request->model,
               "A model with a BPE tokenizer, or a stock output");
  add_argument(command, "DIR", request->out, "Output, which must not exist");
  add_value(command, "--keep", "N", request->keep, "How many tokens stay")->required();
  add_value(command, "--text", "FILE", request->texts,
            "Texts or tables in the languages that the model is used for")
      ->required();
  add_value(command, "--check", "FILE", request->check,
            "Texts that the choice does not see: prints which share of their tokens stays");
  return finish_verb(command, common,
                     "  dotresize vocabulary gemma-3-270m gemma-64k --keep 65536 --text mine.txt\n"
                     "  dotresize vocabulary gemma-3-270m gemma-64k --keep 65536 --text mine.jsonl "
                     "--check other.txt\n",
                     [request, &common]() -> int {
                       request->json = common.json();
                       shrink_vocabulary(*request);
                     });
}

}  // namespace

std::vector<Verb> add_local_verbs(CLI::App& app, CommonOptions& common) {
  return {
      init_verb(app),
      run_verb(app, common),
      plan_verb(app, common),
      eval_verb(app, common),
      verify_verb(app, common),
      export_verb(app, common),
      vocabulary_verb(app, common),
  };
}

}  // namespace dotresize
