#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <string>
#include <vector>

#include "client/calls/connection.h"

namespace dotresize {

/// Options that most verbs have. They may stand before the verb or after it.
struct CommonOptions {
  std::string server;           ///< --server; empty if it is not given
  TlsOptions tls;               ///< --tls-ca, --cert, --key
  std::string output = "text";  ///< -o: "text" or "json"

  bool json() const { return output == "json"; }
  /// --server, else $DOTRESIZE_SERVER, else 127.0.0.1:50051.
  std::string server_address() const;
  /// To that server. Throws InputError for a PEM file that cannot be read.
  Connection connect() const { return Connection(server_address(), tls, token_from_environment()); }
};

/// A verb of the command line and what it does; the action returns the exit code.
struct Verb {
  CLI::App* command;
  std::function<int()> action;
};

void add_server_option(CLI::App& command, CommonOptions& common);
void add_output_option(CLI::App& command, CommonOptions& common);

/// A verb that needs a server; `examples`: lines with newlines.
CLI::App& add_server_verb(CLI::App& app, CommonOptions& common, const std::string& name,
                          const std::string& description, const std::string& examples);

/// init, run, plan, eval, verify: those that need no server.
std::vector<Verb> add_local_verbs(CLI::App& app, CommonOptions& common);
/// doctor: whether this machine can run jobs.
Verb add_doctor_verb(CLI::App& app, CommonOptions& common);
Verb add_sweep_verb(CLI::App& app, CommonOptions& common);
/// submit, status, watch, list, cancel, resume, delete, prune, logs, report, fetch, admin.
std::vector<Verb> add_job_verbs(CLI::App& app, CommonOptions& common);
Verb add_list_verb(CLI::App& app, CommonOptions& common);
Verb add_report_verb(CLI::App& app, CommonOptions& common);
Verb add_fetch_verb(CLI::App& app, CommonOptions& common);
Verb add_prune_verb(CLI::App& app, CommonOptions& common);
Verb add_admin_verb(CLI::App& app, CommonOptions& common);
/// completion: prints what completes the words of `app` in a shell.
Verb add_completion_verb(CLI::App& app);

/// "--text", "-o": of all options of `app`, those in its groups included.
std::vector<std::string> option_names(const CLI::App& app);

/// --set KEY=VALUE, several times (job/spec/job_changes.h).
void add_set_option(CLI::App& command, std::vector<std::string>& changes);

}  // namespace dotresize
