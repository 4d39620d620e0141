#include "server/api/jobs_service.h"

#include <google/protobuf/util/time_util.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <memory>
#include <utility>

#include "base/process/program.h"
#include "base/process/work_budget.h"
#include "base/text/printable.h"
#include "job/spec/spec_paths.h"
#include "job/spec/validate_spec.h"
#include "job/status/job_rows.h"
#include "server/admission/job_admission.h"
#include "server/api/job_query.h"
#include "server/common/api_error.h"
#include "server/common/log_format.h"
#include "server/store/files.h"
#include "server/store/job_output.h"

namespace dotresize {
namespace {

constexpr int kDefaultPage = 100;
constexpr int kMaxPage = 1000;
constexpr size_t kMaxIdBytes = 64;
constexpr int kEventsAtOnce = 256;
// Memory of a listed job, in the answer and as it is sent, for each byte of its record.
constexpr size_t kMemoryPerRecordByte = 4;
constexpr size_t kLogChunkBytes = size_t{64} * 1024;

void check_id(const std::string& id) {
  if (id.empty()) throw invalid_argument("id", "is required");
  if (id.size() > kMaxIdBytes || printable(id, kMaxIdBytes) != id) {
    throw invalid_argument("id", "is not the id of a job");
  }
}

void check_not_negative(const char* field, int64_t value) {
  if (value < 0) throw invalid_argument(field, std::to_string(value) + " is negative");
}

/// Streams the events of a job until it has ended.
class EventStream final : public PumpedStream<v1::Event> {
 public:
  EventStream(StreamPump& pump, JobStore& store, const v1::WatchJobRequest& request)
      : PumpedStream(pump, "WatchJob"),
        store_(store),
        id_(request.id()),
        seen_(request.after_seq()) {}

 private:
  bool fill(std::deque<v1::Event>& pending) override {
    // The position is read before the events: once the job has ended, they are complete.
    const JobPosition position = store_.position(id_);
    if (position.last_event > seen_) {
      for (v1::Event& event : store_.events_after(id_, seen_, kEventsAtOnce)) {
        seen_ = event.seq();
        pending.push_back(std::move(event));
      }
    }
    return has_ended(position.state) && position.last_event <= seen_;
  }

  JobStore& store_;
  const std::string id_;
  int64_t seen_;
};

/// Streams the jobs that match a filter and their changes, without an end.
class ChangesStream final : public PumpedStream<v1::JobChange> {
 public:
  ChangesStream(StreamPump& pump, JobStore& store, const v1::WatchJobsRequest& request)
      : PumpedStream(pump, "WatchJobs"), feed_(store, request) {}

 private:
  bool fill(std::deque<v1::JobChange>& pending) override {
    feed_.read(pending);
    return false;
  }

  JobChangeFeed feed_;
};

/// Streams the log of a job: what is written so far, or, with `follow`, until the job has ended.
class LogStream final : public PumpedStream<v1::LogChunk> {
 public:
  LogStream(StreamPump& pump, JobStore& store, std::filesystem::path log,
            const v1::GetLogsRequest& request)
      : PumpedStream(pump, "GetLogs"),
        store_(store),
        log_(std::move(log)),
        id_(request.id()),
        follow_(request.follow()),
        offset_(request.offset()),
        left_(request.has_limit_bytes() ? request.limit_bytes()
                                        : std::numeric_limits<int64_t>::max()) {
    if (!request.has_tail_bytes()) return;
    std::error_code error;
    const uintmax_t size = std::filesystem::file_size(log_, error);
    if (error) return;  // nothing is written yet
    offset_ = std::max(offset_, static_cast<int64_t>(size) - request.tail_bytes());
  }

 private:
  bool fill(std::deque<v1::LogChunk>& pending) override {
    // The state is read before the file: once the job has ended, its log is complete.
    const bool ended = has_ended(store_.position(id_).state);
    if (left_ == 0) return true;
    v1::LogChunk chunk;
    const auto most = std::min(left_, static_cast<int64_t>(kLogChunkBytes));
    chunk.set_data(read_chunk(log_, offset_, static_cast<size_t>(most)));
    if (chunk.data().empty()) return ended || !follow_;
    offset_ += std::ssize(chunk.data());
    left_ -= std::ssize(chunk.data());
    chunk.set_next_offset(offset_);
    pending.push_back(std::move(chunk));
    return false;
  }

  JobStore& store_;
  const std::filesystem::path log_;
  const std::string id_;
  const bool follow_;
  int64_t offset_;
  int64_t left_;  ///< bytes left to send
};

}  // namespace

v1::Job JobsService::stored(const std::string& id) {
  check_id(id);
  return parts_.store.get(id);
}

void JobsService::require_space() const {
  const Verdict space = parts_.state.check_space();
  if (space) return;
  throw try_again(grpc::StatusCode::UNAVAILABLE, "LOW_SPACE",
                  "the disk of the job table: " + space.fault() + "; try again later",
                  std::chrono::seconds(30));
}

grpc::Status JobsService::CreateJob(grpc::ServerContext* context,
                                    const v1::CreateJobRequest* request, v1::Job* response) {
  const auto create = [&](const Caller& caller, std::string& id) {
    v1::CreateJobRequest named = *request;
    named.mutable_spec()->set_name(name_of(request->spec()));
    // An earlier request is looked for first: its job may have made the output by now.
    auto earlier = request->validate_only()
                       ? std::nullopt
                       : parts_.store.find_request(named.request_id(), named.spec(), caller.name,
                                                   named.options());
    if (earlier) {
      *response = *std::move(earlier);
      response->set_already_submitted(true);
      id = response->id();
      return;
    }
    if (request->options().priority() > 0) require_role(caller, Role::kAdmin);
    parts_.webhooks.require(request->options());
    require_space();
    NewJob admitted = admit(named, {parts_.machine, parts_.paths, parts_.models});
    require_ownership(admitted.claims, rights_of(parts_.gate.access(), caller.name));
    if (request->validate_only()) {
      *response->mutable_spec() = admitted.spec;
      response->set_memory_bytes(admitted.memory);
      if (admitted.launcher != kLocalLauncher) response->set_launcher(admitted.launcher);
      response->set_plan(admitted.plan);
      return;
    }
    admitted.owner = caller.name;
    admitted.traceparent = traceparent_of(*context);
    *response = parts_.store.create(admitted);
    id = response->id();
    log_job(spdlog::level::info, *response, "accepted, '" + response->spec().name() + "'");
  };
  return parts_.gate.serve("CreateJob", origin_of(*context), Role::kSubmit, "", create);
}

grpc::Status JobsService::GetJob(const CallOrigin& origin, const v1::GetJobRequest& request,
                                 v1::Job& response) {
  return parts_.gate.serve("GetJob", origin, Role::kRead, request.id(),
                           [&](const Caller&, std::string&) {
                             response = stored(request.id());
                             describe(response);
                           });
}

void JobsService::describe(v1::Job& job) {
  using google::protobuf::util::TimeUtil;
  const std::shared_ptr<const QueueState> queue = parts_.view.state();
  if (job.state() == v1::Job::FAILED) {
    const int64_t bytes = JobOutput(parts_.store.output_of(job.id()), job.id()).unfinished_bytes();
    if (bytes > 0) job.set_unfinished_bytes(bytes);
  }
  if (is_launched(job.state()) && job.has_launcher()) {
    if (const auto note = queue->notes.find(job.id()); note != queue->notes.end()) {
      if (!note->second.status.empty()) job.set_launcher_status(note->second.status);
      if (!note->second.command.empty()) job.set_command(note->second.command);
    }
  }
  if (job.state() != v1::Job::QUEUED) return;
  job.set_queue_position(parts_.store.queue_position(job.id()));
  const bool retries = job.has_retry_time() && job.retry_time() > parts_.store.clock().now();
  const bool is_head = job.id() == queue->head && queue->paused.empty() && !retries;
  if (is_head && queue->head_start_s && !job.fetching()) {
    *job.mutable_expected_start_time() =
        TimeUtil::GetCurrentTime() +
        TimeUtil::SecondsToDuration(std::llround(*queue->head_start_s));
  }
  const auto why = queue->waiting.find(job.id());
  job.set_waiting_for(job.fetching()                ? "inputs that are being fetched"
                      : retries                     ? "the time of its next attempt"
                      : !queue->paused.empty()      ? queue->paused
                      : why != queue->waiting.end() ? why->second
                                                    : "the jobs before it");
}

grpc::Status JobsService::ListJobs(const CallOrigin& origin, const v1::ListJobsRequest& request,
                                   v1::ListJobsResponse& response) {
  return parts_.gate.serve("ListJobs", origin, Role::kRead, "", [&](const Caller&, std::string&) {
    check_not_negative("page_size", request.page_size());
    JobQuery query = query_of(request.filter());
    query.limit = request.page_size() == 0 ? kDefaultPage : std::min(request.page_size(), kMaxPage);
    query.before = read_page_token(request.page_token(), request.filter());
    JobPage page = parts_.store.list(query);
    WorkBudget::take(kMemoryPerRecordByte * page.bytes);
    const bool basic = request.view() == v1::ListJobsRequest::BASIC;
    for (v1::Job& job : page.jobs) {
      *response.add_jobs() = basic ? basic_view(std::move(job)) : std::move(job);
    }
    if (page.next_before > 0) {
      response.set_next_page_token(make_page_token(page.next_before, request.filter()));
    }
  });
}

grpc::Status JobsService::ListQueue(const CallOrigin& origin, int limit,
                                    std::vector<v1::Job>& response) {
  return parts_.gate.serve("ListJobs", origin, Role::kRead, "", [&](const Caller&, std::string&) {
    for (const std::string& id : parts_.store.queue(limit)) {
      std::optional<v1::Job> job = parts_.store.find(id);
      if (!job || job->state() != v1::Job::QUEUED) continue;  // left the queue meanwhile
      describe(*job);
      response.push_back(*std::move(job));
    }
  });
}

grpc::ServerWriteReactor<v1::Event>* JobsService::WatchJob(grpc::CallbackServerContext* context,
                                                           const v1::WatchJobRequest* request) {
  return start_stream<v1::Event>(
      {"WatchJob", Role::kRead, parts_.streams}, *context, request->id(), [&](const std::string&) {
        check_id(request->id());
        check_not_negative("after_seq", request->after_seq());
        return std::make_shared<EventStream>(parts_.streams, parts_.store, *request);
      });
}

grpc::ServerWriteReactor<v1::JobChange>* JobsService::WatchJobs(
    grpc::CallbackServerContext* context, const v1::WatchJobsRequest* request) {
  return start_stream<v1::JobChange>(
      {"WatchJobs", Role::kRead, parts_.streams}, *context, "", [&](const std::string&) {
        return std::make_shared<ChangesStream>(parts_.streams, parts_.store, *request);
      });
}

grpc::Status JobsService::CancelJob(const CallOrigin& origin, const v1::CancelJobRequest& request,
                                    v1::Job& response) {
  const auto cancel = [&](const Caller& caller, const std::string& id) {
    require_owner(caller, stored(id).owner());
    v1::Job::State before = v1::Job::STATE_UNSPECIFIED;
    DiscardedOutput left;
    response = parts_.store.request_cancel(id, &before,
                                           [&](const v1::Job& job, const std::string& output) {
                                             // The job waited for another attempt; the scheduler
                                             // does not clean up after it.
                                             if (job.attempt() > 0)
                                               left = discard_output(job, output, parts_.trash);
                                           });
    left.remove();
    if (has_ended(before)) return;  // repeated request: nothing was done
    const char* done = response.state() == v1::Job::CANCELLED ? "cancelled" : "cancel asked for";
    log_job(spdlog::level::info, response,
            std::string(done) + " while " + v1::Job::State_Name(before));
  };
  return parts_.gate.serve("CancelJob", origin, Role::kSubmit, request.id(), cancel);
}

grpc::Status JobsService::ResumeJob(const CallOrigin& origin, const v1::ResumeJobRequest& request,
                                    v1::Job& response) {
  const auto resume = [&](const Caller& caller, const std::string& id) {
    const v1::Job ended = stored(id);
    require_owner(caller, ended.owner());
    const std::string output = parts_.store.output_of(id);
    if (ended.has_sweep() && request.fresh()) {
      throw invalid_argument("fresh", "a sweep continues in its directory; remove " + output +
                                          " to start again from the beginning");
    }
    const PathPolicy& paths = parts_.paths;
    readmit(ended.spec(), output, paths);
    if (ended.has_sweep()) check_sweep_directory(output);
    const std::vector<PathClaim> claims =
        ended.has_sweep() ? claims_of(resolve_sweep(ended.spec(), ended.sweep(), paths))
                          : claims_of(paths.resolve(ended.spec()));
    require_ownership(claims, rights_of(parts_.gate.access(), ended.owner(), id, ended.attempt()));
    const bool pushed = is_remote(ended.spec().output().path());
    const Resumption way = request.fresh()                                  ? Resumption::kAfresh
                           : pushed && JobOutput(output, id).is_committed() ? Resumption::kPush
                                                                            : Resumption::kGoOn;
    DiscardedOutput left;
    const auto discard = [&](const v1::Job& row, const std::string& path) {
      if (request.fresh()) left = discard_output(row, path, parts_.trash);
    };
    response = parts_.store.resume(id, claims, discard, way);
    left.remove();
    log_job(spdlog::level::info, response,
            std::string("queued again") + (request.fresh() ? ", afresh" : ""));
  };
  return parts_.gate.serve("ResumeJob", origin, Role::kSubmit, request.id(), resume);
}

grpc::Status JobsService::DeleteJob(const CallOrigin& origin, const v1::DeleteJobRequest& request) {
  return parts_.gate.serve("DeleteJob", origin, Role::kSubmit, request.id(),
                           [&](const Caller& caller, const std::string& id) {
                             check_id(id);
                             if (request.allow_missing() && !parts_.store.find(id)) return;
                             require_owner(caller, parts_.store.get(id).owner());
                             remove_job(parts_.store, parts_.state, parts_.trash, id);
                             log_job(spdlog::level::info, id, 0, "deleted");
                           });
}

grpc::ServerWriteReactor<v1::LogChunk>* JobsService::GetLogs(grpc::CallbackServerContext* context,
                                                             const v1::GetLogsRequest* request) {
  return start_stream<v1::LogChunk>(
      {"GetLogs", Role::kRead, parts_.streams}, *context, request->id(), [&](const std::string&) {
        check_id(request->id());
        check_not_negative("offset", request->offset());
        check_not_negative("tail_bytes", request->tail_bytes());
        check_not_negative("limit_bytes", request->limit_bytes());
        return std::make_shared<LogStream>(parts_.streams, parts_.store,
                                           parts_.state.log(request->id()), *request);
      });
}

v1::ServerInfo JobsService::server_info() {
  std::map<v1::Job::State, int64_t> jobs = parts_.store.counts();
  const std::shared_ptr<const QueueState> queue = parts_.view.state();
  v1::ServerInfo info;
  info.set_version(kVersion);
  *info.mutable_capacity() = to_message(parts_.machine.capacity);
  *info.mutable_used() = to_message(queue->used);
  info.set_queued_jobs(static_cast<int32_t>(jobs[v1::Job::QUEUED]));
  info.set_running_jobs(static_cast<int32_t>(jobs[v1::Job::STARTING] + jobs[v1::Job::RUNNING]));
  info.set_drained(parts_.drain.is_on());
  // The scheduler's last round may be older than the operator's request.
  const std::string& paused = queue->paused;
  info.set_paused(parts_.drain.is_on() ? kDrainedReason : paused == kDrainedReason ? "" : paused);
  for (const std::string& launcher : parts_.machine.launchers) info.add_launchers(launcher);
  return info;
}

grpc::Status JobsService::GetServerInfo(const CallOrigin& origin, v1::ServerInfo& response) {
  return parts_.gate.serve("GetServerInfo", origin, Role::kRead, "",
                           [&](const Caller&, std::string&) { response = server_info(); });
}

grpc::Status JobsService::SetDrained(const CallOrigin& origin, bool drained,
                                     v1::ServerInfo& response) {
  return parts_.gate.serve(drained ? "DrainServer" : "ResumeServer", origin, Role::kAdmin, "",
                           [&](const Caller&, const std::string&) {
                             parts_.drain.set(drained);
                             spdlog::info(drained ? "drained: no more jobs are started"
                                                  : "resumed: jobs are started again");
                             response = server_info();
                           });
}

}  // namespace dotresize
