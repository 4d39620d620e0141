#include <sysexits.h>

#include <filesystem>
#include <iostream>
#include <system_error>

#include "base/errors.h"
#include "base/failure.h"
#include "base/process/environment.h"
#include "base/process/program.h"
#include "client/local/remote_job.h"
#include "client/verbs/verb.h"
#include "job/spec/command_options.h"

namespace dotresize {
namespace fs = std::filesystem;
namespace {

constexpr char kFooter[] =
    "Examples:\n"
    "  dotresize plan job.yaml             the memory of each rank, before anything starts\n"
    "  dotresize run job.yaml              compress on this machine, without a server\n"
    "  dotresize submit job.yaml --wait    compress on the server, and watch\n"
    "\n"
    "Exit codes: 0 ok, 1 the job failed, 2 cancelled, 64 usage, 65 bad job file or data,\n"
    "69 server unavailable, 75 try again, 77 denied.\n"
    "`dotresize VERB --help` explains a verb.\n";

/// Reports an error to people on stderr and, with -o json, as a document on stdout. Returns the
/// exit code.
int fail(const CommonOptions& common, int exit_code, const std::string& code,
         const std::string& message, const std::vector<FieldViolation>& violations = {}) {
  std::cerr << "dotresize: error: " << message << "\n";
  if (common.json()) print_json(error_json(code, message, exit_code, violations));
  return exit_code;
}

/// Throws InputError if the working directory cannot be found: relative paths then lead nowhere,
/// and libraries of the worker do not load.
void require_working_directory() {
  std::error_code error;
  if (!fs::current_path(error).empty()) return;
  throw InputError("the working directory cannot be found (" + error.message() +
                   "): it may have been removed; change to another one, as in cd ~");
}

int perform(const std::vector<Verb>& verbs, const CommonOptions& common) {
  try {
    require_working_directory();
    for (const Verb& verb : verbs) {
      if (verb.command->parsed()) return verb.action();
    }
    return kExitUsage;
  } catch (const RpcError& error) {
    return fail(common, exit_code_for(error.code()), code_name(error.code()), error.what(),
                error.violations());
  } catch (const InputError& error) {
    return fail(common, kExitBadData, kInvalidInput, error.what());
  } catch (const TransferError& error) {
    return fail(common, exit_code_of(error), error.code(), error.what());
  } catch (const ProgramMissing& error) {
    return fail(common, kExitUnavailable, "PROGRAM_MISSING", error.what());
  } catch (const std::system_error& error) {  // a full disk, a folder of another user
    return fail(common, kExitJobFailed, "SYSTEM", error.what());
  } catch (const std::exception& error) {
    return fail(common, EX_SOFTWARE, "INTERNAL", error_text(error));
  }
}

int main(int argc, char** argv) {
  open_standard_streams();
  limit_spinning();
  leave_parent_step();
  leave_unusable_temporary_directory();
  survive_file_size_limit();
  CLI::App app("Compress language models by narrowing their hidden size.", "dotresize");
  app.set_version_flag("--version", std::string("dotresize ") + kVersion);
  app.footer(kFooter);
  app.require_subcommand(1);
  CommonOptions common;
  add_server_option(app, common);
  add_output_option(app, common);
  std::vector<Verb> verbs = add_local_verbs(app, common);
  verbs.push_back(add_sweep_verb(app, common));
  verbs.push_back(add_doctor_verb(app, common));
  for (Verb& verb : add_job_verbs(app, common)) verbs.push_back(std::move(verb));
  verbs.push_back(add_completion_verb(app));
  expand_home_in_paths(app);
  try {
    app.parse(argc, argv);
    refuse_empty_arguments(app);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);  // help, version
    std::cerr << "dotresize: error: " << usage_fault(app, error)
              << "\n`dotresize --help` lists the verbs, `dotresize VERB --help` explains one.\n";
    return kExitUsage;
  }
  return perform(verbs, common);
}

}  // namespace
}  // namespace dotresize

int main(int argc, char** argv) {
  return dotresize::checked_output("dotresize", dotresize::main(argc, argv));
}
