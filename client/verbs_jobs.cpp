// The verbs that need a server. What they do comes first: each prints for people, or one JSON
// document, and returns the exit code. Throws RpcError, and InputError for files that cannot be
// read.
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <memory>
#include <optional>

#include "base/errors.h"
#include "base/printable.h"
#include "base/program.h"
#include "client/connection.h"
#include "client/follow.h"
#include "client/job_text.h"
#include "client/json_output.h"
#include "client/log_output.h"
#include "client/rpc_error.h"
#include "client/terminal.h"
#include "client/verb.h"
#include "client/watch_view.h"
#include "job/report/report.h"
#include "job/spec/job_file.h"
#include "job/spec/job_state.h"

namespace dotresize {
namespace {

namespace fs = std::filesystem;

/// What a shell expects of a program that SIGINT stopped.
constexpr int kExitInterrupted = 130;

/// `answer` is a job or several, `text` the same for people.
template <class Answer>
void print(const Answer& answer, const std::string& text, const CommonOptions& common) {
  if (common.json()) {
    print_json(to_json(answer));
  } else {
    std::cout << text;
  }
}

/// Shows the job through `view` until it has ended; nothing when SIGINT stopped the watching.
std::optional<v1::Job> follow(Connection& connection, const std::string& id,
                              std::unique_ptr<WatchObserver> view) {
  std::optional<v1::Job> job;
  {
    const InterruptGuard guard;
    job = watch_job(connection, id, *view, [&guard] { return guard.interrupted(); });
  }
  view.reset();
  if (!job) {
    std::cerr << "stopped watching; the job goes on. To end it: dotresize cancel " << id << "\n";
  }
  return job;
}

/// What submit --wait ends with.
int finish(const v1::Job& job, const CommonOptions& common) {
  if (common.json()) {
    print_json(to_json(job));
  } else {
    (job.state() == v1::Job::SUCCEEDED ? std::cout : std::cerr) << outcome_text(job);
  }
  return exit_code_for(job);
}

/// As the user and state_name() spell them, which is in lower case.
std::map<std::string, v1::Job::State> states_by_name() {
  std::map<std::string, v1::Job::State> states;
  for (int number = v1::Job::QUEUED; number <= v1::Job::State_MAX; ++number) {
    const auto state = static_cast<v1::Job::State>(number);
    states[state_name(state)] = state;
  }
  return states;
}

/// The model directory of a job that has succeeded. Throws InputError for any other.
fs::path output_of(const std::string& id, const CommonOptions& common) {
  const v1::Job job = common.connect().get_job(id);
  if (job.state() != v1::Job::SUCCEEDED) {
    throw InputError("job " + id + " has no report: it is " + state_name(job));
  }
  return job.result().output_path();
}

struct SubmitOptions {
  std::string job_file;
  std::string request_id;
  bool wait = false;
  std::optional<int> priority;
  std::vector<std::string> labels;
  std::optional<uint32_t> deadline_s;
  std::optional<uint32_t> ttl_s;
};

/// "team=nlp" as a key and its value. Throws InputError for any other text.
std::pair<std::string, std::string> label_of(const std::string& text) {
  const size_t equals = text.find('=');
  if (equals == std::string::npos)
    throw InputError("--label", in_quotes(text) + " is not KEY=VALUE");
  return {text.substr(0, equals), text.substr(equals + 1)};
}

template <class Map>
void add_labels(const std::vector<std::string>& texts, Map& labels) {
  for (const std::string& text : texts) {
    const auto [key, value] = label_of(text);
    labels[key] = value;
  }
}

v1::JobOptions job_options(const SubmitOptions& options) {
  v1::JobOptions result;
  if (options.priority) result.set_priority(*options.priority);
  if (options.deadline_s) result.set_deadline_s(*options.deadline_s);
  if (options.ttl_s) result.set_ttl_seconds_after_finished(*options.ttl_s);
  add_labels(options.labels, *result.mutable_labels());
  return result;
}

int submit_job(const SubmitOptions& options, const CommonOptions& common) {
  v1::CreateJobRequest request;
  *request.mutable_spec() = read_job_file(options.job_file);
  request.set_request_id(options.request_id.empty() ? new_request_id() : options.request_id);
  const v1::JobOptions how = job_options(options);
  if (how.ByteSizeLong() > 0) *request.mutable_options() = how;
  Connection connection = common.connect();
  const v1::Job job = connection.create_job(request, [](const std::string& why) {
    std::cerr << "dotresize: " << why << "; trying again for ten seconds\n";
  });
  if (options.wait) {
    const auto ended = follow(connection, job.id(), progress_view());
    return ended ? finish(*ended, common) : kExitInterrupted;
  }
  print(job, job.id() + "\n", common);
  if (!common.json()) std::cerr << "submitted; to follow it: dotresize watch " << job.id() << "\n";
  return kExitOk;
}

int print_status(const std::string& id, const CommonOptions& common) {
  const v1::Job job = common.connect().get_job(id);
  print(job, job_text(job, std::time(nullptr)), common);
  return kExitOk;
}

/// Shows the job's progress until it has ended.
int print_progress(const std::string& id, const CommonOptions& common) {
  Connection connection = common.connect();
  const auto job = follow(connection, id, common.json() ? json_view() : progress_view());
  if (!job) return kExitInterrupted;
  return common.json() ? exit_code_for(*job) : finish(*job, common);
}

std::vector<std::string> state_names() {
  std::vector<std::string> names;
  for (const auto& [name, state] : states_by_name()) names.push_back(name);
  return names;
}

struct ListOptions {
  std::vector<std::string> states;
  std::string name;
  std::string owner;
  std::vector<std::string> labels;
  int limit = 20;
};

int list_jobs(const ListOptions& options, const CommonOptions& common) {
  v1::ListJobsRequest::Filter filter;
  filter.set_name(options.name);
  if (!options.owner.empty()) filter.set_owner(options.owner);
  add_labels(options.labels, *filter.mutable_labels());
  for (const std::string& name : options.states) filter.add_states(states_by_name().at(name));
  Connection connection = common.connect();
  const std::vector<v1::Job> jobs = connection.list_jobs(filter, options.limit);
  print(jobs, job_table(jobs, std::time(nullptr)), common);
  return kExitOk;
}

/// `wait`: until the job's processes are gone.
int cancel_job(const std::string& id, bool wait, const CommonOptions& common) {
  Connection connection = common.connect();
  v1::Job job = connection.cancel_job(id);
  if (wait && !has_ended(job.state())) {
    const auto ended = follow(connection, id, progress_view());
    if (!ended) return kExitInterrupted;
    job = *ended;
  }
  print(job, job.id() + " " + state_name(job) + "\n", common);
  return kExitOk;
}

int resume_job(const std::string& id, bool fresh, const CommonOptions& common) {
  const v1::Job job = common.connect().resume_job(id, fresh);
  print(job, job.id() + " " + state_name(job) + "\n", common);
  return kExitOk;
}

int delete_job(const std::string& id, const CommonOptions& common) {
  common.connect().delete_job(id);
  if (common.json()) {
    print_json({{"id", id}, {"deleted", true}});
  } else {
    std::cout << id << " deleted\n";
  }
  return kExitOk;
}

LogOutput::Form log_form(const CommonOptions& common) {
  if (common.json()) return LogOutput::Form::kJson;
  return stdout_is_terminal() ? LogOutput::Form::kTerminal : LogOutput::Form::kBytes;
}

/// `follow_log`: until the job has ended.
int print_logs(const std::string& id, bool follow_log, const CommonOptions& common) {
  Connection connection = common.connect();
  LogOutput output(std::cout, log_form(common), id);
  try {
    read_logs(connection, id, follow_log, [&](const std::string& piece) { output.add(piece); });
  } catch (const RpcError& error) {
    if (!output.begun()) throw;
    output.finish(error);
    std::cerr << "dotresize: error: " << error.what() << "\n";
    return exit_code_for(error.code());
  }
  output.finish();
  return kExitOk;
}

/// `what`: the id of a job that has succeeded, or a model directory.
int print_report(const std::string& what, const CommonOptions& common) {
  const fs::path model_dir = fs::is_directory(what) ? fs::path(what) : output_of(what, common);
  const fs::path file = model_dir / "dotresize" / "report.json";
  if (!fs::exists(file)) {
    throw InputError(file.string() + ": no such file here" +
                     (fs::is_directory(what)
                          ? "; is this a model that dotresize wrote?"
                          : "; `dotresize status " + what + "` shows what the server knows"));
  }
  const ReportSummary summary = read_report_summary(model_dir);
  if (common.json()) {
    std::ifstream stream(file);
    print_json(nlohmann::ordered_json::parse(stream));
  } else {
    std::cout << report_text(summary) << "\noutput  " << model_dir.string() << "\n";
  }
  return kExitOk;
}

CLI::App& add_verb(CLI::App& app, CommonOptions& common, const std::string& name,
                   const std::string& description, const std::string& examples) {
  CLI::App& command = *app.add_subcommand(name, description);
  add_server_option(command, common);
  add_output_option(command, common);
  command.footer("Examples:\n" + examples);
  command.group("With a server");
  return command;
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
  command
      .add_option("--priority", options->priority,
                  "Place in the queue: -100 to 100, of which those above 0 are for admins")
      ->type_name("N");
  command.add_option("--label", options->labels, "For filters of list; may be given several times")
      ->allow_extra_args(false)
      ->type_name("KEY=VALUE");
  command
      .add_option("--deadline", options->deadline_s,
                  "Seconds after its start at which the job is stopped")
      ->type_name("S");
  command
      .add_option("--ttl", options->ttl_s,
                  "Seconds after its end at which the server forgets the job")
      ->type_name("S");
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
  command.add_option("--owner", options->owner, "Only jobs of this owner")->type_name("OWNER");
  command
      .add_option("--label", options->labels,
                  "Only jobs with this label; may be given several times")
      ->allow_extra_args(false)
      ->type_name("KEY=VALUE");
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
  command.add_option("ID", *id, "The job, as submit and list print it")->required()->type_name("");
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

int administer(const std::string& action, const CommonOptions& common) {
  Connection connection = common.connect();
  const v1::ServerInfo server = action == "drain"    ? connection.drain_server()
                                : action == "resume" ? connection.resume_server()
                                                     : connection.server_info();
  print(server, server_text(server), common);
  return kExitOk;
}

Verb admin_verb(CLI::App& app, CommonOptions& common) {
  CLI::App& command = add_verb(app, common, "admin", "Show the server, or let it start no jobs",
                               "  dotresize admin info\n"
                               "  dotresize admin drain\n");
  auto action = std::make_shared<std::string>();
  command
      .add_option("ACTION", *action,
                  "info: version, capacity, use. drain: no job is started from now on; running "
                  "ones go on. resume: jobs are started again")
      ->required()
      ->type_name("")
      ->check(CLI::IsMember({"info", "drain", "resume"}).description(""));
  return {&command, [action, &common] { return administer(*action, common); }};
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
      id_verb(
          app, common, "resume", "Go on with a failed or cancelled job", "--fresh",
          "Start anew, without what its last attempt has found",
          [&common](const std::string& id, bool fresh) { return resume_job(id, fresh, common); }),
      id_verb(app, common, "delete", "Forget an ended job; its model directory stays", "", "",
              [&common](const std::string& id, bool) { return delete_job(id, common); }),
      id_verb(
          app, common, "logs", "Print a job's log", "-f,--follow", "Until the job has ended",
          [&common](const std::string& id, bool follow) { return print_logs(id, follow, common); }),
      report_verb(app, common),
      admin_verb(app, common),
  };
}

}  // namespace dotresize
