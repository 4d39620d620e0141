// dotresize-worker: one rank of a job under mpirun (or alone), and the commands that look at one
// model.
#include <CLI/CLI.hpp>
#include <cstdio>

#include "job/errors.h"
#include "job/version.h"
#include "worker/job_command.h"
#include "worker/model_commands.h"

namespace {

using namespace dotresize;

struct Arguments {
  JobCommandOptions job;
  std::filesystem::path model_dir;
  TokenSource source;
  std::string output = "text";
};

void add_output_option(CLI::App& app, Arguments& arguments) {
  app.add_option("-o,--output", arguments.output, "text, or json: one document on stdout")
      ->check(CLI::IsMember({"text", "json"}));
}

CLI::App* add_eval(CLI::App& app, Arguments& arguments) {
  CLI::App* eval = app.add_subcommand("eval", "Perplexity of a dense or compressed model");
  eval->add_option("model", arguments.model_dir, "Hugging Face directory")->required();
  auto* text =
      eval->add_option("--text", arguments.source.text, "Text files, joined with a blank line");
  auto* tokens = eval->add_option("--tokens", arguments.source.tokens,
                                  "safetensors file with a tensor \"tokens\"");
  text->excludes(tokens);
  eval->add_option("--seqlen", arguments.source.seqlen,
                   "Tokens per window (default: the token file's rows, else 2048)")
      ->check(CLI::Range(2, 1 << 24));
  add_output_option(*eval, arguments);
  eval->callback([text, tokens] {
    if (text->empty() && tokens->empty())
      throw CLI::ValidationError("eval needs --text or --tokens");
  });
  return eval;
}

CLI::App* add_verify(CLI::App& app, Arguments& arguments) {
  CLI::App* verify =
      app.add_subcommand("verify", "Check hashes, shapes and values of an output directory");
  verify->add_option("dir", arguments.model_dir, "Output directory of a job")->required();
  add_output_option(*verify, arguments);
  return verify;
}

int run(const CLI::App* eval, const CLI::App* verify, const Arguments& arguments) {
  const bool json = arguments.output == "json";
  if (eval->parsed()) return eval_command(arguments.model_dir, arguments.source, json);
  if (verify->parsed()) return verify_command(arguments.model_dir, json);
  return run_job_command(arguments.job);
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app(
      "Makes a language model narrower. Run one job, alone or as the ranks of `mpirun -np N "
      "dotresize-worker JOB`.");
  app.set_version_flag("--version", kVersion);
  Arguments arguments;
  auto* job = app.add_option("job", arguments.job.job_file, "Job file (YAML or JSON)");
  app.add_option("--work-dir", arguments.job.work_dir,
                 "Where tokenised text is cached (default: beside the job file)");
  app.add_option("--trace", arguments.job.trace,
                 "Timeline of all ranks to write, for chrome://tracing and Perfetto");
  const CLI::App* eval = add_eval(app, arguments);
  const CLI::App* verify = add_verify(app, arguments);
  app.require_subcommand(0, 1);
  try {
    app.parse(argc, argv);
    if (app.get_subcommands().empty() && job->empty()) throw CLI::RequiredError("job");
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? kExitOk : kExitUsage;
  }
  try {
    return run(eval, verify, arguments);
  } catch (const InputError& error) {
    std::fprintf(stderr, "dotresize-worker: error: %s\n", error.what());
    return kExitBadData;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "dotresize-worker: error: %s\n", error.what());
    return kExitJobFailed;
  }
}
