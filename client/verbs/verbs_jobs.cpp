// The verbs that need a server. First come their actions: each prints for people, or one JSON
// document, and returns the exit code. They throw RpcError, and InputError for files that cannot be
// read.
#include <fmt/format.h>
#include <unistd.h>

#include <ctime>
#include <functional>
#include <iostream>
#include <memory>
#include <optional>

#include "base/errors.h"
#include "base/failure.h"
#include "base/process/program.h"
#include "base/text/printable.h"
#include "client/calls/follow.h"
#include "client/display/job_view.h"
#include "client/display/verb_output.h"
#include "client/local/planned_job.h"
#include "client/verbs/verb.h"
#include "job/spec/job_file.h"
#include "job/spec/sweep_file.h"
#include "job/status/job_rows.h"
#include "job/sweep/sweep_results.h"

namespace dotresize {
namespace {

/// Shows the job through `view` until it has ended; nullopt if SIGINT stopped the watching.
std::optional<v1::Job> follow(Connection& connection, const std::string& id, WatchObserver view) {
  std::optional<v1::Job> job;
  {
    const InterruptGuard guard;
    job = watch_job(connection, id, view, [&guard] { return guard.interrupted(); });
  }
  view = {};  // ends the display before others write
  if (!job) {
    std::cerr << "stopped watching; the job continues. To cancel it: dotresize cancel " << id
              << "\n";
  }
  return job;
}

/// Prints the outcome at the end of submit --wait. `pareto`: only the front of a sweep.
int finish(Connection& connection, const v1::Job& job, bool pareto, const CommonOptions& common) {
  if (job.has_sweep()) {
    print_sweep(connection.get_sweep(job.id()).results(), pareto, common);
    if (job.state() != v1::Job::SUCCEEDED) std::cerr << outcome_text(job);
  } else if (common.json()) {
    print_json(to_json(job));
  } else {
    (job.state() == v1::Job::SUCCEEDED ? std::cout : std::cerr) << outcome_text(job);
  }
  return exit_code_for(job);
}

struct SubmitOptions {
  std::string job_file;  ///< job file or sweep file
  std::optional<uint32_t> parallel;
  bool pareto = false;
  std::vector<std::string> changes;
  std::string request_id;
  bool wait = false;
  bool dry_run = false;
  std::optional<int> priority;
  std::vector<std::string> labels;
  std::optional<uint32_t> deadline_s;
  std::optional<uint32_t> ttl_s;
  std::string webhook;
};

/// Submits a job or a sweep. If the server refuses fields, adds the place in the file to those that
/// come from it.
template <class Request, class Response>
Response submit(Connection& connection, StubMethod<Request, Response> method,
                const Request& request, const JobFile& file, std::chrono::seconds deadline) {
  const auto tell = [](const std::string& why) {
    std::cerr << "dotresize: " << why << "; trying again for ten seconds\n";
  };
  try {
    return connection.create(method, request, tell, deadline);
  } catch (const RpcError& error) {
    if (error.violations().empty()) throw;
    std::string message = "the server refused the job";
    for (const FieldViolation& violation : error.violations()) {
      const std::string& field = violation.field;
      const bool is_of_command = field == "request_id" || field.starts_with("options.");
      message += "\n  " + (is_of_command ? field + ": " + violation.description
                                         : located(file, field, violation.description));
    }
    throw RpcError(printable_lines(message), error);
  }
}

/// Request with the fields that jobs and sweeps share, except the spec.
template <class Request>
Request request_of(const SubmitOptions& options) {
  Request request;
  request.set_request_id(options.request_id.empty() ? new_request_id() : options.request_id);
  request.set_validate_only(options.dry_run);
  v1::JobOptions how;
  if (options.priority) how.set_priority(*options.priority);
  if (options.deadline_s) how.set_deadline_s(*options.deadline_s);
  if (options.ttl_s) how.set_ttl_seconds_after_finished(*options.ttl_s);
  if (!options.webhook.empty()) how.mutable_notify()->set_webhook(options.webhook);
  add_labels(options.labels, *how.mutable_labels());
  if (how.ByteSizeLong() > 0) *request.mutable_options() = how;
  return request;
}

/// Waits for the job's end if asked to; otherwise prints how to wait.
int follow_submitted(Connection& connection, const v1::Job& job, const SubmitOptions& options,
                     const CommonOptions& common) {
  if (options.wait) {
    const auto ended = follow(connection, job.id(), progress_view());
    return ended ? finish(connection, *ended, options.pareto, common) : kExitInterrupted;
  }
  print(job, job.id() + "\n", common);
  if (!common.json()) {
    std::cerr << (job.already_submitted() ? "already submitted, it is " + state_name(job)
                                          : "submitted")
              << "; to follow it: dotresize watch " << job.id() << "\n";
  }
  return kExitOk;
}

int submit_sweep(const SubmitOptions& options, const CommonOptions& common) {
  const SweepFile file = open_sweep_file(options.job_file, options.changes);
  auto request = request_of<v1::CreateSweepRequest>(options);
  *request.mutable_spec() = file.base.spec;
  *request.mutable_sweep() = sweep_spec_of(file);
  if (options.parallel) request.mutable_sweep()->set_parallel(*options.parallel);
  Connection connection = common.connect();
  constexpr std::chrono::seconds kDeadline{120};  // the server plans up to thousands of jobs
  const v1::Sweep sweep =
      submit(connection, &v1::Jobs::Stub::CreateSweep, request, file.base, kDeadline);
  if (!options.dry_run) {
    for (const SweepRow& row : reported_sweep(sweep.results()).rows) {
      if (row.state != v1::SweepResults::Variant::refused) continue;
      std::cerr << fmt::format("refused: {}: {}\n", fmt::join(row.values, " "), row.reason);
    }
    return follow_submitted(connection, sweep.job(), options, common);
  }
  std::cerr << printable_lines(sweep.job().plan());
  print_sweep(sweep.results(), options.pareto, common);
  std::cerr << "the server would accept this sweep; nothing was submitted\n";
  return kExitOk;
}

int submit_job(const SubmitOptions& options, const CommonOptions& common) {
  if (is_sweep_file(options.job_file)) return submit_sweep(options, common);
  if (options.parallel) throw InputError("--parallel", "is for a sweep; this file has none");
  if (options.pareto) throw InputError("--pareto", "is for a sweep; this file has none");
  const JobFile file = open_job_file(options.job_file, options.changes);
  auto request = request_of<v1::CreateJobRequest>(options);
  *request.mutable_spec() = file.spec;
  Connection connection = common.connect();
  const v1::Job job =
      submit(connection, &v1::Jobs::Stub::CreateJob, request, file, std::chrono::seconds(10));
  if (!options.dry_run) return follow_submitted(connection, job, options, common);
  print(job, job.plan(), common);
  std::cerr << "the server would accept this job; nothing was submitted\n";
  return kExitOk;
}

int print_status(const std::string& id, const CommonOptions& common) {
  Connection connection = common.connect();
  const v1::Job job = connection.get_job(find_job_id(connection, id));
  print(job, job_text(job, std::time(nullptr)), common);
  if (job.has_sweep() && !common.json()) {
    std::cout << "\n";
    print_sweep(connection.get_sweep(job.id()).results(), /*pareto=*/false, common);
  }
  return kExitOk;
}

using Ids = std::vector<std::string>;

/// Result of an action on one of several jobs.
struct JobAnswer {
  nlohmann::ordered_json document;
  std::string text;
  int exit_code = kExitOk;
};

/// Calls `act` for each job in turn, even after a failure. A single job's document stands alone,
/// and its error is the program's; several jobs give a list. Returns the first exit code that is
/// not 0.
int for_each_job(const Ids& ids, const CommonOptions& common,
                 const std::function<JobAnswer(Connection&, const std::string& id)>& act) {
  Connection connection = common.connect();
  const auto show = [&](const JobAnswer& answer) {
    if (!common.json()) std::cout << answer.text;
  };
  if (ids.size() == 1) {
    const JobAnswer answer = act(connection, find_job_id(connection, ids.front()));
    show(answer);
    if (common.json()) print_json(answer.document);
    return answer.exit_code;
  }
  nlohmann::ordered_json documents = nlohmann::ordered_json::array();
  int exit_code = kExitOk;
  const auto take_error = [&](const std::string& id, int code, const std::string& name,
                              const std::string& what) {
    std::cerr << "dotresize: error: " << printable(id) << ": " << what << "\n";
    nlohmann::ordered_json document = error_json(name, what, code);
    document["id"] = id;
    documents.push_back(std::move(document));
    if (exit_code == kExitOk) exit_code = code;
  };
  for (const std::string& id : ids) {
    try {
      JobAnswer answer = act(connection, find_job_id(connection, id));
      show(answer);
      documents.push_back(std::move(answer.document));
      if (exit_code == kExitOk) exit_code = answer.exit_code;
    } catch (const RpcError& error) {
      take_error(id, exit_code_for(error.code()), code_name(error.code()), error.what());
    } catch (const InputError& error) {
      take_error(id, kExitBadData, kInvalidInput, error.what());
    }
  }
  if (common.json()) print_json({{"jobs", std::move(documents)}});
  return exit_code;
}

JobAnswer state_answer(const v1::Job& job) {
  return {to_json(job), job.id() + " " + state_name(job) + "\n"};
}

/// Cancels the jobs. `wait`: returns when their processes are gone.
int cancel_jobs(const Ids& ids, bool wait, const CommonOptions& common) {
  return for_each_job(ids, common, [&](Connection& connection, const std::string& id) {
    v1::CancelJobRequest request;
    request.set_id(id);
    v1::Job job = connection.call(&v1::Jobs::Stub::CancelJob, request);
    if (wait && !has_ended(job.state())) {
      const auto ended = follow(connection, id, progress_view());
      if (!ended) return JobAnswer{to_json(job), "", kExitInterrupted};
      job = *ended;
    }
    return state_answer(job);
  });
}

/// Prints a job's log. `follow_log`: until the job has ended.
int print_logs(const std::string& id_or_prefix, bool follow_log, const CommonOptions& common) {
  Connection connection = common.connect();
  const std::string id = find_job_id(connection, id_or_prefix);
  const bool terminal = ::isatty(STDOUT_FILENO) == 1;
  LogOutput output{.out = std::cout,
                   .form = common.json() ? LogOutput::Form::kJson
                           : terminal    ? LogOutput::Form::kTerminal
                                         : LogOutput::Form::kBytes,
                   .id = id};
  try {
    read_logs(connection, id, follow_log, [&](const std::string& piece) { output.add(piece); });
  } catch (const RpcError& error) {
    if (!output.begun) throw;
    output.finish(&error);
    std::cerr << "dotresize: error: " << error.what() << "\n";
    return exit_code_for(error.code());
  }
  output.finish();
  return kExitOk;
}

Verb submit_verb(CLI::App& app, CommonOptions& common) {
  CLI::App& command =
      add_server_verb(app, common, "submit", "Submit a job or a sweep to the server",
                      "  dotresize submit job.yaml --wait\n"
                      "  dotresize submit sweep.yaml --wait --pareto\n"
                      "  dotresize submit job.yaml --set method.size=0.7 --dry-run\n"
                      "  id=$(dotresize submit job.yaml)\n");
  auto options = std::make_shared<SubmitOptions>();
  add_argument(command, "JOB", options->job_file, "Job file (YAML or JSON), or sweep file");
  add_set_option(command, options->changes);
  CLI::Option* wait = command.add_flag("--wait", options->wait,
                                       "Show progress until the job has ended, and its result");
  command
      .add_flag("--dry-run", options->dry_run,
                "Only ask the server whether it would accept the job, and for its plan")
      ->excludes(wait);
  add_value(command, "--parallel", "N", options->parallel,
            "For a sweep: number of jobs at a time (default: as many as fit)")
      ->check(CLI::Range(1, 1024).description(""));
  command.add_flag(
      "--pareto", options->pareto,
      "For a sweep: show only the Pareto front: no other result is better in bytes and "
      "perplexity");
  add_value(command, "--request-id", "ID", options->request_id,
            "Id of this request; repeating it gives the same job again (default: a new id)");
  add_value(command, "--priority", "N", options->priority,
            "Priority in the queue, from -100 to 100; above 0 for admins only");
  add_value(command, "--label", "KEY=VALUE", options->labels,
            "Label for the filters of list; may be given several times")
      ->allow_extra_args(false);
  add_value(command, "--deadline", "S", options->deadline_s,
            "Stop the job this many seconds after its start");
  add_value(command, "--ttl", "S", options->ttl_s,
            "Delete the job from the server this many seconds after its end");
  add_value(command, "--webhook", "URL", options->webhook,
            "URL that the server calls at the job's end; its operator must allow it");
  return {&command, [options, &common] { return submit_job(*options, common); }};
}

std::string examples_of(const std::string& name, const std::string& arguments,
                        const std::string& flag) {
  const std::string call = "  dotresize " + name + " " + arguments;
  return call + "\n" + (flag.empty() ? "" : call + " " + flag.substr(0, flag.find(',')) + "\n");
}

/// A verb whose only argument is a job, and perhaps one flag.
Verb id_verb(CLI::App& app, CommonOptions& common, const std::string& name,
             const std::string& description, const std::string& flag,
             const std::string& flag_description,
             const std::function<int(const std::string&, bool)>& action) {
  CLI::App& command = add_server_verb(app, common, name, description,
                                      examples_of(name, "j-451f3da65440ea8f", flag));
  auto id = std::make_shared<std::string>();
  auto set = std::make_shared<bool>(false);
  add_argument(command, "ID", *id, kIdHelp);
  if (!flag.empty()) command.add_flag(flag, *set, flag_description);
  return {&command, [id, set, action] { return action(*id, *set); }};
}

/// A verb whose arguments are several jobs, and perhaps one flag.
Verb ids_verb(CLI::App& app, CommonOptions& common, const std::string& name,
              const std::string& description, const std::string& flag,
              const std::string& flag_description,
              const std::function<int(const Ids&, bool)>& action) {
  CLI::App& command = add_server_verb(
      app, common, name, description,
      examples_of(name, "j-451f3da65440ea8f", flag) + examples_of(name, "451f 8c02", ""));
  auto ids = std::make_shared<Ids>();
  auto set = std::make_shared<bool>(false);
  add_value(command, "ID", "...", *ids, kIdHelp)->required();
  if (!flag.empty()) command.add_flag(flag, *set, flag_description);
  return {&command, [ids, set, action] { return action(*ids, *set); }};
}

}  // namespace

std::vector<Verb> add_job_verbs(CLI::App& app, CommonOptions& common) {
  return {
      submit_verb(app, common),
      id_verb(app, common, "status", "Show one job", "", "",
              [&common](const std::string& id, bool) { return print_status(id, common); }),
      id_verb(app, common, "watch", "Show a job's progress until it has ended", "", "",
              [&common](const std::string& id_or_prefix, bool) {
                Connection connection = common.connect();
                const std::string id = find_job_id(connection, id_or_prefix);
                const WatchObserver json{
                    .event = [](const auto& event) { print_json_line(to_json(event)); }};
                const auto job = follow(connection, id, common.json() ? json : progress_view());
                if (!job) return static_cast<int>(kExitInterrupted);
                return common.json() ? exit_code_for(*job)
                                     : finish(connection, *job, /*pareto=*/false, common);
              }),
      add_list_verb(app, common),
      ids_verb(app, common, "cancel", "Cancel jobs", "--wait",
               "Wait until their processes are gone",
               [&common](const Ids& ids, bool wait) { return cancel_jobs(ids, wait, common); }),
      ids_verb(app, common, "resume", "Continue failed or cancelled jobs", "--fresh",
               "Start anew, without the results of earlier attempts",
               [&common](const Ids& ids, bool fresh) {
                 return for_each_job(ids, common, [&](Connection& connection, const auto& id) {
                   v1::ResumeJobRequest request;
                   request.set_id(id);
                   request.set_fresh(fresh);
                   return state_answer(connection.call(&v1::Jobs::Stub::ResumeJob, request));
                 });
               }),
      ids_verb(app, common, "delete", "Delete ended jobs; their model directories stay", "", "",
               [&common](const Ids& ids, bool) {
                 return for_each_job(ids, common, [](Connection& connection, const auto& id) {
                   v1::DeleteJobRequest request;
                   request.set_id(id);
                   connection.call(&v1::Jobs::Stub::DeleteJob, request);
                   return JobAnswer{{{"id", id}, {"deleted", true}}, id + " deleted\n"};
                 });
               }),
      add_prune_verb(app, common),
      id_verb(
          app, common, "logs", "Print a job's log", "-f,--follow",
          "Follow the log until the job has ended",
          [&common](const std::string& id, bool follow) { return print_logs(id, follow, common); }),
      add_report_verb(app, common),
      add_fetch_verb(app, common),
      add_admin_verb(app, common),
  };
}

}  // namespace dotresize
