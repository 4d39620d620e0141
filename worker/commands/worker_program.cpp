#include "worker/commands/worker_program.h"

#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>
#include <vector>

#include "base/errors.h"
#include "base/process/program.h"
#include "job/spec/command_options.h"
#include "worker/calibration/reason.h"

namespace dotresize {
namespace {

struct Arguments {
  JobCommandOptions job;
  EvalRequest eval;
  VerifyRequest verify;
  std::string device = "auto";  ///< self-test only
  std::string output = "text";
  std::string progress = "text";
};

void add_output_option(CLI::App& app, Arguments& arguments) {
  app.add_option("-o,--output", arguments.output, "text, or json: one document on stdout")
      ->check(CLI::IsMember({"text", "json"}));
}

void add_progress_option(CLI::App& app, Arguments& arguments) {
  app.add_option("--progress", arguments.progress,
                 "On stderr: text, or json for a program: a JSON text sequence (RFC 7464) of the "
                 "API's Progress")
      ->check(CLI::IsMember({"text", "json"}));
}

/// Returns the positional option with the job file.
CLI::Option* add_job_options(CLI::App& app, JobCommandOptions& options) {
  app.add_option("--work-dir", options.work_dir,
                 "Where tokenised text is cached (default: beside the job file)");
  app.add_option("--trace", options.trace,
                 "Timeline of all ranks to write, for chrome://tracing and Perfetto");
  add_value(app, "--attempt", "FILE", options.attempt,
            "File of a server whose launcher started this: where rank 0 reports its progress");
  app.add_option("--dense-loss", options.dense_loss,
                 "File that keeps the dense model's loss for jobs that are evaluated on the same "
                 "tokens: read if it is there, else written");
  app.add_option("--decomposition-threads", options.decomposition_threads,
                 "Threads of eigen solvers and QR, whose rounding depends on their number "
                 "(default: those of this process)")
      ->check(CLI::Range(1, 1 << 16).description(""));
  add_value(app, "--held", "DIR DESCRIPTOR", options.held,
            "Directory that the starter of this program holds open, and a path of its "
            "descriptor: paths below the directory are opened below the descriptor, without "
            "following links");
  app.add_flag("--fresh", options.fresh,
               "Start from the beginning even if an interrupted run of the job has left a journal");
  app.add_option("--set", options.changes,
                 "KEY=VALUE: changes a key of the job file; several times")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->allow_extra_args(false);
  return app.add_option("job", options.job_file, "Job file (YAML or JSON)");
}

/// `command`: the given command; null for a job.
int run(const CLI::App* command, Arguments& arguments, const MakeTransport& transport) {
  const bool json = arguments.output == "json";
  const bool progress_records = arguments.progress == "json";
  const std::string name = command ? command->get_name() : "";
  if (name == "eval") return eval_command(arguments.eval, json, progress_records);
  if (name == "verify") return verify_command(arguments.verify, json);
  if (name == "probe") return probe_command();
  if (name == "self-test") {
    std::optional<DeviceKind> device;  // absent: auto
    if (arguments.device != "auto") {
      device = arguments.device == "cuda" ? DeviceKind::kCuda : DeviceKind::kCpu;
    }
    return self_test_command(device, json, transport);
  }
  arguments.job.progress_records = progress_records;
  return run_job_command(arguments.job, transport);
}

}  // namespace

int run_worker(int argc, char** argv, const MakeTransport& transport) {
  // libtorch is to request huge pages for large tensors, because the kernel takes longer to supply
  // small pages than some kernels take to fill them. It asks at the first tensor. The user's value
  // stays.
  ::setenv("THP_MEM_ALLOC_ENABLE", "1", /*overwrite=*/0);
  // A block of the GPU's memory can grow, so that a freed matrix makes room for a larger one.
  if (std::getenv("PYTORCH_CUDA_ALLOC_CONF") == nullptr) {
    ::setenv("PYTORCH_ALLOC_CONF", "expandable_segments:True", /*overwrite=*/0);
  }
  survive_file_size_limit();
  CLI::App app(
      "Makes a language model narrower. Run one job, alone or as the ranks of `mpirun -np N "
      "dotresize-worker JOB`.");
  app.set_version_flag("--version", kVersion);
  Arguments arguments;
  const CLI::Option* job = add_job_options(app, arguments.job);
  add_progress_option(app, arguments);
  CLI::App* eval = app.add_subcommand("eval", "Perplexity and latency of models");
  add_eval_options(*eval, arguments.eval);
  add_output_option(*eval, arguments);
  add_progress_option(*eval, arguments);
  CLI::App* verify = app.add_subcommand("verify", "Check an output directory");
  add_verify_options(*verify, arguments.verify);
  add_output_option(*verify, arguments);
  CLI::App* self_test = app.add_subcommand(
      "self-test",
      "Try the devices of the ranks and the links between them, as a job on GPUs does");
  self_test->add_option("--device", arguments.device, "cpu, cuda or auto")
      ->check(CLI::IsMember({"cpu", "cuda", "auto"}));
  add_output_option(*self_test, arguments);
  app.add_subcommand("probe", "Describe this machine as JSON, for `dotresize doctor`");
  app.require_subcommand(0, 1);
  try {
    app.parse(argc, argv);
    if (app.get_subcommands().empty() && job->empty()) throw CLI::RequiredError("job");
    refuse_empty_arguments(app);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);
    std::fprintf(stderr, "dotresize-worker: error: %s\n", error.what());
    return kExitUsage;
  }
  try {
    const std::vector<CLI::App*> commands = app.get_subcommands();
    if (commands.empty()) return run(nullptr, arguments, transport);  // its result is a file
    return checked_output("dotresize-worker", run(commands.front(), arguments, transport));
  } catch (const UsageError& error) {
    std::fprintf(stderr, "dotresize-worker: error: %s\n", error.what());
    return kExitUsage;
  } catch (const InputError& error) {
    std::fprintf(stderr, "dotresize-worker: error: %s\n", error.what());
    return kExitBadData;
  } catch (const ProgramMissing& error) {
    std::fprintf(stderr, "dotresize-worker: error: %s\n", error.what());
    return kExitUnavailable;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "dotresize-worker: error: %s\n", reason_of(error).c_str());
    return kExitJobFailed;
  }
}

}  // namespace dotresize
