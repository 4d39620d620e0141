#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <iostream>
#include <string>
#include <vector>

#include "client/calls/connection.h"
#include "client/display/verb_output.h"
#include "job/spec/command_options.h"

namespace dotresize {

/// Help of the argument ID.
inline constexpr char kIdHelp[] =
    "Id of the job, as submit and list print it, or the beginning of the id";

/// Options that most verbs have. They may stand before or after the verb.
struct CommonOptions {
  std::string server;           ///< --server; empty if not given
  TlsOptions tls;               ///< --tls-ca, --cert, --key
  std::string output = "text";  ///< -o: "text" or "json"

  bool json() const { return output == "json"; }
  /// Connects to --server, else $DOTRESIZE_SERVER, else 127.0.0.1:50051, with the bearer token from
  /// the file that DOTRESIZE_TOKEN_FILE names, if any. Throws InputError for a PEM or token file
  /// that cannot be read, and for one that holds no token.
  Connection connect() const;
};

/// A verb of the command line and its action, which returns the exit code.
struct Verb {
  CLI::App* command;
  std::function<int()> action;
};

void add_server_option(CLI::App& command, CommonOptions& common);
void add_output_option(CLI::App& command, CommonOptions& common);

/// Adds a verb that needs a server. `examples`: lines with newlines.
CLI::App& add_server_verb(CLI::App& app, CommonOptions& common, const std::string& name,
                          const std::string& description, const std::string& examples);

/// Adds the verbs that need no server: init, run, plan, eval, verify.
std::vector<Verb> add_local_verbs(CLI::App& app, CommonOptions& common);
/// Adds doctor, which checks if this machine can run jobs.
Verb add_doctor_verb(CLI::App& app, CommonOptions& common);
Verb add_sweep_verb(CLI::App& app, CommonOptions& common);
/// Adds submit, status, watch, list, cancel, resume, delete, prune, logs, report, fetch, admin.
std::vector<Verb> add_job_verbs(CLI::App& app, CommonOptions& common);
Verb add_list_verb(CLI::App& app, CommonOptions& common);
Verb add_report_verb(CLI::App& app, CommonOptions& common);
Verb add_fetch_verb(CLI::App& app, CommonOptions& common);
Verb add_prune_verb(CLI::App& app, CommonOptions& common);
Verb add_admin_verb(CLI::App& app, CommonOptions& common);
/// Adds completion, which prints a shell completion script for `app`.
Verb add_completion_verb(CLI::App& app);

/// Names ("--text", "-o") of all options of `app`, including those in option groups.
std::vector<std::string> option_names(const CLI::App& app);

/// Makes all options of `app` and its verbs that are paths, by their type names, expand a leading
/// "~", which a shell leaves in `--trace=~/x`.
void expand_home_in_paths(CLI::App& app);

/// Adds the repeatable option --set KEY=VALUE (job/spec/job_file.h).
void add_set_option(CLI::App& command, std::vector<std::string>& changes);

/// Adds the labels given by --label, each "KEY=VALUE". Throws InputError for any other text.
void add_labels(const std::vector<std::string>& texts,
                google::protobuf::Map<std::string, std::string>& labels);

/// Script that completes the verbs and options of `app`, files, and the ids of the server's jobs.
/// `shell` is "bash" or "zsh".
std::string completion_script(const CLI::App& app, const std::string& shell);

/// Explains why `app` could not parse the command line, in a sentence without a full stop. An
/// unknown verb or option comes with the nearest existing one.
std::string usage_fault(const CLI::App& app, const CLI::ParseError& error);

/// Prints the server's `answer` (one or several messages) as JSON, or `text`, the same for people.
template <class Answer>
void print(const Answer& answer, const std::string& text, const CommonOptions& common) {
  if (common.json()) {
    print_json(to_json(answer));
  } else {
    std::cout << text;
  }
}

/// Prints a sweep's results like `dotresize sweep`: the table, or the document of results.json.
/// `pareto`: the table has only the Pareto front.
void print_sweep(const v1::SweepResults& results, bool pareto, const CommonOptions& common);

}  // namespace dotresize
