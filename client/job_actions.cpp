#include "client/job_actions.h"

#include <ctime>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <memory>
#include <optional>

#include "base/errors.h"
#include "base/program.h"
#include "client/connection.h"
#include "client/interrupt.h"
#include "client/job_text.h"
#include "client/json_output.h"
#include "client/logs.h"
#include "client/request_id.h"
#include "client/watch.h"
#include "client/watch_view.h"
#include "job/report/report.h"
#include "job/spec/job_file.h"
#include "job/spec/job_state.h"

namespace dotresize {
namespace {

namespace fs = std::filesystem;

/// What a shell expects of a program that SIGINT stopped.
constexpr int kExitInterrupted = 130;

void print_job(const v1::Job& job, const CommonOptions& common) {
  if (common.json()) {
    print_json(to_json(job));
  } else {
    std::cout << job_text(job, std::time(nullptr));
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
  const v1::Job job = Connection(common.server_address()).get_job(id);
  if (job.state() != v1::Job::SUCCEEDED) {
    throw InputError("job " + id + " has no report: it is " + state_name(job));
  }
  return job.result().output_path();
}

}  // namespace

int submit_job(const SubmitOptions& options, const CommonOptions& common) {
  v1::CreateJobRequest request;
  *request.mutable_spec() = read_job_file(options.job_file);
  request.set_request_id(options.request_id.empty() ? new_request_id() : options.request_id);
  Connection connection(common.server_address());
  const v1::Job job = connection.create_job(request, [](const std::string& why) {
    std::cerr << "dotresize: " << why << "; trying again for ten seconds\n";
  });
  if (options.wait) {
    const auto ended = follow(connection, job.id(), progress_view());
    return ended ? finish(*ended, common) : kExitInterrupted;
  }
  if (common.json()) {
    print_json(to_json(job));
  } else {
    std::cout << job.id() << "\n";
    std::cerr << "submitted; to follow it: dotresize watch " << job.id() << "\n";
  }
  return kExitOk;
}

int print_status(const std::string& id, const CommonOptions& common) {
  print_job(Connection(common.server_address()).get_job(id), common);
  return kExitOk;
}

int print_progress(const std::string& id, const CommonOptions& common) {
  Connection connection(common.server_address());
  std::unique_ptr<WatchObserver> view =
      common.json() ? std::make_unique<JsonView>() : progress_view();
  const auto job = follow(connection, id, std::move(view));
  if (!job) return kExitInterrupted;
  return common.json() ? exit_code_for(*job) : finish(*job, common);
}

std::vector<std::string> state_names() {
  std::vector<std::string> names;
  for (const auto& [name, state] : states_by_name()) names.push_back(name);
  return names;
}

int list_jobs(const ListOptions& options, const CommonOptions& common) {
  v1::ListJobsRequest::Filter filter;
  filter.set_name(options.name);
  for (const std::string& name : options.states) filter.add_states(states_by_name().at(name));
  Connection connection(common.server_address());
  const std::vector<v1::Job> jobs = connection.list_jobs(filter, options.limit);
  if (common.json()) {
    print_json(to_json(jobs));
  } else {
    std::cout << job_table(jobs, std::time(nullptr));
  }
  return kExitOk;
}

int cancel_job(const std::string& id, bool wait, const CommonOptions& common) {
  Connection connection(common.server_address());
  v1::Job job = connection.cancel_job(id);
  if (wait && !has_ended(job.state())) {
    const auto ended = follow(connection, id, progress_view());
    if (!ended) return kExitInterrupted;
    job = *ended;
  }
  if (common.json()) {
    print_json(to_json(job));
  } else {
    std::cout << job.id() << " " << state_name(job) << "\n";
  }
  return kExitOk;
}

int delete_job(const std::string& id, const CommonOptions& common) {
  Connection(common.server_address()).delete_job(id);
  if (common.json()) {
    print_json({{"id", id}, {"deleted", true}});
  } else {
    std::cout << id << " deleted\n";
  }
  return kExitOk;
}

int print_logs(const std::string& id, bool follow_log, const CommonOptions& common) {
  Connection connection(common.server_address());
  if (!common.json()) {
    read_logs(connection, id, follow_log,
              [](const std::string& piece) { std::cout << piece << std::flush; });
    return kExitOk;
  }
  std::string text;
  read_logs(connection, id, follow_log, [&text](const std::string& piece) { text += piece; });
  print_json({{"id", id}, {"log", text}});
  return kExitOk;
}

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

}  // namespace dotresize
