#include <memory>

#include "client/job_actions.h"
#include "client/verb.h"

namespace dotresize {
namespace {

CLI::App& add_verb(CLI::App& app, CommonOptions& common, const std::string& name,
                   const std::string& description, const std::string& examples) {
  CLI::App& command = *app.add_subcommand(name, description);
  add_server_option(command, common);
  add_output_option(command, common);
  command.footer("Examples:\n" + examples);
  command.group("With a server");
  return command;
}

void add_id_option(CLI::App& command, std::string& id) {
  command.add_option("ID", id, "The job, as submit and list print it")->required()->type_name("");
}

Verb submit_verb(CLI::App& app, CommonOptions& common) {
  CLI::App& command = add_verb(app, common, "submit", "Give a job to the server",
                               "  dotresize submit job.yaml --wait\n"
                               "  id=$(dotresize submit job.yaml)\n");
  auto options = std::make_shared<SubmitOptions>();
  command.add_option("JOB", options->job_file, "Job file (YAML or JSON)")
      ->required()
      ->type_name("");
  command.add_flag("--wait", options->wait,
                   "Show progress until the job has ended, and its result");
  command
      .add_option("--request-id", options->request_id,
                  "The same ID gives the same job, however often it is submitted (default: a new "
                  "one)")
      ->type_name("ID");
  return {&command, [options, &common] { return submit_job(*options, common); }};
}

Verb list_verb(CLI::App& app, CommonOptions& common) {
  CLI::App& command = add_verb(app, common, "list", "List jobs, newest first",
                               "  dotresize list\n"
                               "  dotresize list --state running,queued -o json\n");
  auto options = std::make_shared<ListOptions>();
  command
      .add_option("--state", options->states,
                  "Only jobs in these states, comma-separated: queued, starting, running, "
                  "succeeded, failed, cancelled")
      ->delimiter(',')
      ->type_name("STATE,...")
      ->transform(CLI::IsMember(state_names(), CLI::ignore_case).description(""));
  command.add_option("--name", options->name, "Only jobs of this name")->type_name("NAME");
  command.add_option("--limit", options->limit, "At most so many")
      ->type_name("N")
      ->check(CLI::Range(1, 1'000'000).description(""))
      ->capture_default_str();
  return {&command, [options, &common] { return list_jobs(*options, common); }};
}

/// A verb whose only argument is a job, and perhaps one flag.
Verb id_verb(CLI::App& app, CommonOptions& common, const std::string& name,
             const std::string& description, const std::string& flag,
             const std::string& flag_description,
             const std::function<int(const std::string&, bool)>& action) {
  const std::string call = "  dotresize " + name + " j-451f3da65440ea8f";
  const std::string with_flag =
      flag.empty() ? "" : call + " " + flag.substr(0, flag.find(',')) + "\n";
  CLI::App& command = add_verb(app, common, name, description, call + "\n" + with_flag);
  auto id = std::make_shared<std::string>();
  auto set = std::make_shared<bool>(false);
  add_id_option(command, *id);
  if (!flag.empty()) command.add_flag(flag, *set, flag_description);
  return {&command, [id, set, action] { return action(*id, *set); }};
}

Verb report_verb(CLI::App& app, CommonOptions& common) {
  CLI::App& command = add_verb(app, common, "report", "Show what a compression gave",
                               "  dotresize report out/docs-llama-80\n"
                               "  dotresize report j-451f3da65440ea8f -o json\n");
  auto what = std::make_shared<std::string>();
  command.add_option("ID|DIR", *what, "A job that has succeeded, or a model directory")
      ->required()
      ->type_name("");
  return {&command, [what, &common] { return print_report(*what, common); }};
}

}  // namespace

std::vector<Verb> add_job_verbs(CLI::App& app, CommonOptions& common) {
  return {
      submit_verb(app, common),
      id_verb(app, common, "status", "Show one job", "", "",
              [&common](const std::string& id, bool) { return print_status(id, common); }),
      id_verb(app, common, "watch", "Show a job's progress until it has ended", "", "",
              [&common](const std::string& id, bool) { return print_progress(id, common); }),
      list_verb(app, common),
      id_verb(app, common, "cancel", "End a job", "--wait", "Until its processes are gone",
              [&common](const std::string& id, bool wait) { return cancel_job(id, wait, common); }),
      id_verb(app, common, "delete", "Forget an ended job; its model directory stays", "", "",
              [&common](const std::string& id, bool) { return delete_job(id, common); }),
      id_verb(
          app, common, "logs", "Print a job's log", "-f,--follow", "Until the job has ended",
          [&common](const std::string& id, bool follow) { return print_logs(id, follow, common); }),
      report_verb(app, common),
  };
}

}  // namespace dotresize
