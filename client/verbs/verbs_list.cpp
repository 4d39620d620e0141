// The verb list: shows the jobs of a server, once or as they change.
#include <ctime>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/process/program.h"
#include "client/calls/follow.h"
#include "client/display/job_view.h"
#include "client/verbs/verb.h"

namespace dotresize {
namespace {

/// Job states by their lower-case names, as in state_name().
std::map<std::string, v1::Job::State> states_by_name() {
  std::map<std::string, v1::Job::State> states;
  for (int number = v1::Job::QUEUED; number <= v1::Job::State_MAX; ++number) {
    const auto state = static_cast<v1::Job::State>(number);
    states[state_name(state)] = state;
  }
  return states;
}

struct ListOptions {
  std::vector<std::string> states;
  std::string name;
  std::string owner;
  std::vector<std::string> labels;
  int limit = 20;
  bool watch = false;
};

/// Lists the jobs, or shows their changes until SIGINT.
int list_jobs(const ListOptions& options, const CommonOptions& common) {
  Connection connection = common.connect();
  v1::ListJobsRequest::Filter filter;
  filter.set_name(options.name);
  if (!options.owner.empty()) filter.set_owner(options.owner);
  add_labels(options.labels, *filter.mutable_labels());
  for (const std::string& name : options.states) filter.add_states(states_by_name().at(name));
  if (options.watch) {
    const JobsObserver view =
        common.json()
            ? JobsObserver{.change = [](const auto& change) { print_json_line(to_json(change)); }}
            : jobs_view(options.limit);
    const InterruptGuard guard;
    watch_jobs(connection, filter, view, [&guard] { return guard.interrupted(); });
    return kExitInterrupted;
  }
  const std::vector<v1::Job> jobs = connection.list_jobs(filter, options.limit);
  print(jobs, job_table(jobs, std::time(nullptr)), common);
  return kExitOk;
}

}  // namespace

Verb add_list_verb(CLI::App& app, CommonOptions& common) {
  CLI::App& command = add_server_verb(app, common, "list", "List jobs, newest first",
                                      "  dotresize list\n"
                                      "  dotresize list --state running,queued -o json\n"
                                      "  dotresize list --watch --label team=nlp\n");
  auto options = std::make_shared<ListOptions>();
  add_value(command, "--state", "STATE,...", options->states,
            "Only jobs in these states, comma-separated: queued, starting, running, "
            "succeeded, failed, cancelled")
      ->delimiter(',')
      ->transform(CLI::IsMember(states_by_name(), CLI::ignore_case).description(""));
  add_value(command, "--name", "NAME", options->name, "Only jobs of this name");
  add_value(command, "--owner", "OWNER", options->owner, "Only jobs of this owner");
  add_value(command, "--label", "KEY=VALUE", options->labels,
            "Only jobs with this label; may be given several times")
      ->allow_extra_args(false);
  add_value(command, "--limit", "N", options->limit, "Largest number of jobs")
      ->check(CLI::Range(1, 1'000'000).description(""))
      ->capture_default_str();
  command.add_flag("-w,--watch", options->watch,
                   "Show the newest job last, then a line for each change, until Ctrl-C");
  return {&command, [options, &common] { return list_jobs(*options, common); }};
}

}  // namespace dotresize
