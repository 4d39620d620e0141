// Verbs for operators: delete old jobs, show the server, drain it.
#include <chrono>
#include <ctime>
#include <iostream>
#include <memory>

#include "base/process/program.h"
#include "base/text/human_text.h"
#include "base/text/printable.h"
#include "client/display/job_view.h"
#include "client/verbs/verb.h"

namespace dotresize {
namespace {

struct PruneOptions {
  int keep_days = 0;
  bool dry_run = false;
};

/// Deletes a job. Waits while the server takes no more calls. Returns false, with a note, for a job
/// that must be kept: somebody else's, or one that was resumed.
bool delete_own(Connection& connection, const std::string& id) {
  v1::DeleteJobRequest request;
  request.set_id(id);
  try {
    Reconnection{connection, {std::chrono::seconds(1), std::chrono::seconds(5)}}.run(
        [&] {
          connection.call(&v1::Jobs::Stub::DeleteJob, request);
          return true;
        },
        [](const RpcError& error) { return error.code() == grpc::RESOURCE_EXHAUSTED; },
        [](const RpcError&) {});
    return true;
  } catch (const RpcError& error) {
    if (error.code() == grpc::NOT_FOUND) return true;  // already deleted
    if (error.code() != grpc::PERMISSION_DENIED && error.code() != grpc::FAILED_PRECONDITION) throw;
    std::cerr << "dotresize: kept " << printable(id) << ": " << error.what() << "\n";
    return false;
  }
}

/// Deletes the jobs that ended longer ago than the limit in `options`.
int prune_jobs(const PruneOptions& options, const CommonOptions& common) {
  constexpr int kAll = 1'000'000;
  constexpr std::time_t kDay = 86400;
  v1::ListJobsRequest::Filter filter;
  for (const auto state : {v1::Job::SUCCEEDED, v1::Job::FAILED, v1::Job::CANCELLED}) {
    filter.add_states(state);
  }
  Connection connection = common.connect();
  std::vector<v1::Job> jobs = connection.list_jobs(filter, kAll);
  const std::time_t before = std::time(nullptr) - options.keep_days * kDay;
  std::erase_if(jobs, [&](const v1::Job& job) { return job.end_time().seconds() >= before; });
  if (!options.dry_run) {
    std::erase_if(jobs, [&](const v1::Job& job) { return !delete_own(connection, job.id()); });
  }
  const std::string done = counted(static_cast<int64_t>(jobs.size()), "job") +
                           (options.dry_run ? " would be deleted\n" : " deleted\n");
  if (common.json()) {
    nlohmann::ordered_json ids = nlohmann::ordered_json::array();
    for (const v1::Job& job : jobs) ids.push_back(job.id());
    print_json({{"deleted", !options.dry_run}, {"ids", std::move(ids)}});
  } else if (jobs.empty()) {
    std::cout << done;
  } else {
    std::cout << job_table(jobs, std::time(nullptr)) << done;
  }
  return kExitOk;
}

}  // namespace

Verb add_prune_verb(CLI::App& app, CommonOptions& common) {
  CLI::App& command =
      add_server_verb(app, common, "prune", "Delete jobs that ended long ago; their models stay",
                      "  dotresize prune --keep-days 7 --dry-run\n");
  auto options = std::make_shared<PruneOptions>();
  add_value(command, "--keep-days", "N", options->keep_days,
            "Keep the jobs that ended in the last N days")
      ->required()
      ->check(CLI::Range(0, 36500).description(""));
  command.add_flag("--dry-run", options->dry_run, "Only show the jobs that would be deleted");
  return {&command, [options, &common] { return prune_jobs(*options, common); }};
}

Verb add_admin_verb(CLI::App& app, CommonOptions& common) {
  CLI::App& command = add_server_verb(app, common, "admin",
                                      "Show the server's state, or stop and resume starting jobs",
                                      "  dotresize admin info\n"
                                      "  dotresize admin drain\n");
  auto action = std::make_shared<std::string>();
  add_argument(command, "ACTION", *action,
               "info: version, capacity, use. drain: start no more jobs; running ones continue. "
               "resume: start jobs again")
      ->check(CLI::IsMember({"info", "drain", "resume"}).description(""));
  return {&command, [action, &common] {
            using Stub = v1::Jobs::Stub;
            Connection connection = common.connect();
            const v1::ServerInfo server =
                *action == "drain" ? connection.call(&Stub::DrainServer, v1::DrainServerRequest())
                : *action == "resume"
                    ? connection.call(&Stub::ResumeServer, v1::ResumeServerRequest())
                    : connection.call(&Stub::GetServerInfo, v1::GetServerInfoRequest());
            print(server, server_text(server), common);
            return kExitOk;
          }};
}

}  // namespace dotresize
