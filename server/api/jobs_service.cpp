#include "server/api/jobs_service.h"

#include <google/protobuf/util/time_util.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <memory>
#include <utility>

#include "base/files/output_owner.h"
#include "base/process/program.h"
#include "base/text/printable.h"
#include "job/spec/job_state.h"
#include "job/spec/remote_url.h"
#include "server/api/job_query.h"
#include "server/api/job_removal.h"
#include "server/api/start_stream.h"
#include "server/api/sweep_admission.h"
#include "server/api/trace_context.h"
#include "server/api_error.h"
#include "server/log_format.h"
#include "server/schedule/job_output.h"
#include "server/schedule/sweep_directory.h"
#include "server/store/files.h"
#include "server/store/job_change_feed.h"

namespace dotresize {
namespace {

constexpr int kDefaultPage = 100;
constexpr int kMaxPage = 1000;
constexpr size_t kMaxIdBytes = 64;
constexpr int kEventsAtOnce = 256;
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

/// Returns the offset at which the request's part of the log begins.
int64_t first_byte(const std::filesystem::path& log, const v1::GetLogsRequest& request) {
  if (!request.has_tail_bytes()) return request.offset();
  std::error_code error;
  const uintmax_t size = std::filesystem::file_size(log, error);
  if (error) return request.offset();  // nothing is written yet
  return std::max(request.offset(), static_cast<int64_t>(size) - request.tail_bytes());
}

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
        offset_(first_byte(log_, request)),
        left_(request.has_limit_bytes() ? request.limit_bytes()
                                        : std::numeric_limits<int64_t>::max()) {}

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

JobQuery page_query(const v1::ListJobsRequest& request) {
  check_not_negative("page_size", request.page_size());
  JobQuery query = query_of(request.filter());
  query.limit = request.page_size() == 0 ? kDefaultPage : std::min(request.page_size(), kMaxPage);
  query.before = read_page_token(request.page_token(), request.filter());
  return query;
}

}  // namespace

JobsService::JobsService(const JobsContext& context)
    : store_(context.store),
      state_(context.state),
      trash_(context.trash),
      streams_(context.streams),
      paths_(context.paths),
      gate_(context.gate),
      machine_(context.machine),
      drain_(context.drain),
      view_(context.view),
      webhooks_(context.webhooks),
      transfers_(context.transfers),
      models_leave_(context.models_leave) {}

v1::Job JobsService::stored(const std::string& id) {
  check_id(id);
  return store_.get(id);
}

void JobsService::require_own_job(const Caller& caller, const std::string& id) {
  require_owner(caller, stored(id).owner());
}

bool JobsService::is_missing(const std::string& id) {
  check_id(id);
  try {
    store_.position(id);
    return false;
  } catch (const ApiError& error) {
    if (error.code != grpc::StatusCode::NOT_FOUND) throw;
    return true;
  }
}

grpc::Status JobsService::CreateJob(grpc::ServerContext* context,
                                    const v1::CreateJobRequest* request, v1::Job* response) {
  return gate_.serve("CreateJob", origin_of(*context), Role::kSubmit, "",
                     [&](const Caller& caller, std::string& id) {
                       *response = create(*request, caller, traceparent_of(*context));
                       id = response->id();
                     });
}

void JobsService::require_space() const {
  const std::string fault = state_.space_fault();
  if (fault.empty()) return;
  throw try_again(grpc::StatusCode::UNAVAILABLE, "LOW_SPACE",
                  "the disk of the job table: " + fault + "; try again later",
                  std::chrono::seconds(30));
}

void JobsService::require_own_output(const NewJob& job, const Caller& caller) {
  const std::optional<OutputOwner> made_by = owner_of_output(job.output);
  if (!job.spec.output().overwrite() || !made_by || made_by->job_id.empty()) return;
  const std::optional<v1::Job> maker = store_.find(made_by->job_id);
  if (!maker || may_change(caller, maker->owner())) return;
  throw ApiError(grpc::StatusCode::PERMISSION_DENIED, "NOT_THE_OWNER",
                 "output.path: job " + maker->id() +
                     " of another owner has made what lies there; only its owner and admins may "
                     "overwrite it",
                 {{"field", "output.path"}});
}

v1::Job JobsService::create(const v1::CreateJobRequest& request, const Caller& caller,
                            const std::string& traceparent) {
  if (!request.validate_only()) {
    // Looks for an earlier request first: that job may have made the output by now.
    auto earlier =
        store_.find_request(request.request_id(), request.spec(), caller.name, request.options());
    if (earlier) {
      earlier->set_already_submitted(true);
      return *earlier;
    }
  }
  if (request.options().priority() > 0) require_role(caller, Role::kAdmin);
  webhooks_.require(request.options());
  require_space();
  NewJob admitted = admit(request, machine_, paths_);
  require_own_output(admitted, caller);
  if (request.validate_only()) {
    v1::Job job;
    *job.mutable_spec() = admitted.spec;
    job.set_memory_bytes(admitted.memory);
    if (admitted.launcher != kLocalLauncher) job.set_launcher(admitted.launcher);
    job.set_plan(admitted.plan);
    return job;
  }
  admitted.owner = caller.name;
  admitted.traceparent = traceparent;
  v1::Job job = store_.create(admitted);
  log_job(spdlog::level::info, job, "accepted, '" + job.spec().name() + "'");
  return job;
}

grpc::Status JobsService::GetJob(const CallOrigin& origin, const v1::GetJobRequest& request,
                                 v1::Job& response) {
  return gate_.serve("GetJob", origin, Role::kRead, request.id(),
                     [&](const Caller&, std::string&) { response = get(request.id()); });
}

v1::Job JobsService::get(const std::string& id) {
  v1::Job job = stored(id);
  describe(job);
  return job;
}

void JobsService::describe(v1::Job& job) {
  if (job.state() == v1::Job::FAILED) {
    const int64_t bytes = JobOutput(store_.output_of(job.id()), job.id()).unfinished_bytes();
    if (bytes > 0) job.set_unfinished_bytes(bytes);
  }
  if (is_launched(job.state()) && job.has_launcher()) {
    const AttemptNote note = view_.note(job.id());
    if (!note.status.empty()) job.set_launcher_status(note.status);
    if (!note.command.empty()) job.set_command(note.command);
  }
  if (job.state() != v1::Job::QUEUED) return;
  job.set_queue_position(store_.queue_position(job.id()));
  const bool retries =
      job.has_retry_time() && job.retry_time() > google::protobuf::util::TimeUtil::GetCurrentTime();
  if (const std::optional<double> seconds = view_.start_s(job.id()); seconds && !retries) {
    using google::protobuf::util::TimeUtil;
    *job.mutable_expected_start_time() =
        TimeUtil::GetCurrentTime() + TimeUtil::SecondsToDuration(std::llround(*seconds));
  }
  if (job.fetching()) {
    job.clear_expected_start_time();
    job.set_waiting_for("what it reads from elsewhere, which is being fetched");
    return;
  }
  job.set_waiting_for(retries ? "the time of its next attempt" : view_.reason(job.id()));
}

grpc::Status JobsService::ListJobs(const CallOrigin& origin, const v1::ListJobsRequest& request,
                                   v1::ListJobsResponse& response) {
  return gate_.serve("ListJobs", origin, Role::kRead, "", [&](const Caller&, std::string&) {
    JobPage page = store_.list(page_query(request));
    const bool basic = request.view() == v1::ListJobsRequest::BASIC;
    for (v1::Job& job : page.jobs) {
      *response.add_jobs() = basic ? basic_view(std::move(job)) : std::move(job);
    }
    if (page.next_before > 0) {
      response.set_next_page_token(make_page_token(page.next_before, request.filter()));
    }
  });
}

std::optional<v1::Job> JobsService::get_queued(const std::string& id) {
  if (is_missing(id)) return std::nullopt;
  v1::Job job = get(id);
  return job.state() == v1::Job::QUEUED ? std::optional(std::move(job)) : std::nullopt;
}

grpc::Status JobsService::ListQueue(const CallOrigin& origin, int limit,
                                    std::vector<v1::Job>& response) {
  return gate_.serve("ListJobs", origin, Role::kRead, "", [&](const Caller&, std::string&) {
    for (const std::string& id : store_.queue(limit)) {
      if (auto job = get_queued(id)) response.push_back(std::move(*job));
    }
  });
}

grpc::ServerWriteReactor<v1::Event>* JobsService::WatchJob(grpc::CallbackServerContext* context,
                                                           const v1::WatchJobRequest* request) {
  return start_stream<v1::Event>({"WatchJob", Role::kRead, streams_}, *context, request->id(),
                                 [&](const Caller&) {
                                   check_id(request->id());
                                   check_not_negative("after_seq", request->after_seq());
                                   return std::make_shared<EventStream>(streams_, store_, *request);
                                 });
}

grpc::ServerWriteReactor<v1::JobChange>* JobsService::WatchJobs(
    grpc::CallbackServerContext* context, const v1::WatchJobsRequest* request) {
  return start_stream<v1::JobChange>(
      {"WatchJobs", Role::kRead, streams_}, *context, "",
      [&](const Caller&) { return std::make_shared<ChangesStream>(streams_, store_, *request); });
}

grpc::Status JobsService::CancelJob(const CallOrigin& origin, const v1::CancelJobRequest& request,
                                    v1::Job& response) {
  return gate_.serve("CancelJob", origin, Role::kSubmit, request.id(),
                     [&](const Caller& caller, std::string& id) {
                       require_own_job(caller, id);
                       cancel(id, response);
                     });
}

void JobsService::cancel(const std::string& id, v1::Job& response) {
  v1::Job::State before = v1::Job::STATE_UNSPECIFIED;
  DiscardedOutput left;
  response = store_.request_cancel(id, &before, [&](const v1::Job& job, const std::string& output) {
    // The job waited for another attempt; the scheduler does not clean up after it.
    if (job.attempt() > 0) left = discard_output(job, output, trash_);
  });
  left.remove();
  if (has_ended(before)) return;  // repeated request: nothing was done
  const char* done = response.state() == v1::Job::CANCELLED ? "cancelled" : "cancel asked for";
  log_job(spdlog::level::info, response,
          std::string(done) + " while " + v1::Job::State_Name(before));
}

grpc::Status JobsService::ResumeJob(const CallOrigin& origin, const v1::ResumeJobRequest& request,
                                    v1::Job& response) {
  return gate_.serve("ResumeJob", origin, Role::kSubmit, request.id(),
                     [&](const Caller& caller, std::string& id) {
                       require_own_job(caller, id);
                       response = resume(request);
                       log_job(spdlog::level::info, response,
                               std::string("queued again") + (request.fresh() ? ", afresh" : ""));
                     });
}

v1::Job JobsService::resume(const v1::ResumeJobRequest& request) {
  const std::string output = store_.output_of(request.id());
  const v1::Job ended = store_.get(request.id());
  if (ended.has_sweep() && request.fresh()) {
    throw invalid_argument("fresh",
                           "a sweep goes on in its directory; remove " + output + " to start anew");
  }
  readmit(ended.spec(), output, paths_);
  if (ended.has_sweep()) check_sweep_directory(output);
  const std::vector<PathClaim> claims =
      ended.has_sweep() ? claims_of(resolve_sweep(ended.spec(), ended.sweep(), paths_))
                        : claims_of(paths_.resolve(ended.spec()));
  const bool pushed = is_remote(ended.spec().output().path());
  const Resumption way = request.fresh() ? Resumption::kAfresh
                         : pushed && JobOutput(output, request.id()).is_committed()
                             ? Resumption::kPush
                             : Resumption::kGoOn;
  DiscardedOutput left;
  const auto discard = [&](const v1::Job& row, const std::string& path) {
    if (request.fresh()) left = discard_output(row, path, trash_);
  };
  v1::Job job = store_.resume(request.id(), claims, discard, way);
  left.remove();
  return job;
}

grpc::Status JobsService::DeleteJob(const CallOrigin& origin, const v1::DeleteJobRequest& request) {
  return gate_.serve("DeleteJob", origin, Role::kSubmit, request.id(),
                     [&](const Caller& caller, std::string& id) {
                       if (request.allow_missing() && is_missing(id)) return;
                       require_own_job(caller, id);
                       remove_job(store_, state_, trash_, id);
                       log_job(spdlog::level::info, id, 0, "deleted");
                     });
}

grpc::ServerWriteReactor<v1::LogChunk>* JobsService::GetLogs(grpc::CallbackServerContext* context,
                                                             const v1::GetLogsRequest* request) {
  return start_stream<v1::LogChunk>(
      {"GetLogs", Role::kRead, streams_}, *context, request->id(), [&](const Caller&) {
        check_id(request->id());
        check_not_negative("offset", request->offset());
        check_not_negative("tail_bytes", request->tail_bytes());
        check_not_negative("limit_bytes", request->limit_bytes());
        return std::make_shared<LogStream>(streams_, store_, state_.log(request->id()), *request);
      });
}

v1::ServerInfo JobsService::server_info() {
  std::map<v1::Job::State, int64_t> jobs = store_.counts();
  v1::ServerInfo info;
  info.set_version(kVersion);
  *info.mutable_capacity() = to_message(machine_.capacity);
  *info.mutable_used() = to_message(view_.used());
  info.set_queued_jobs(static_cast<int32_t>(jobs[v1::Job::QUEUED]));
  info.set_running_jobs(static_cast<int32_t>(jobs[v1::Job::STARTING] + jobs[v1::Job::RUNNING]));
  info.set_drained(drain_.is_on());
  // The scheduler's last round may be older than the operator's request.
  const std::string paused = view_.paused();
  info.set_paused(drain_.is_on() ? kDrainedReason : paused == kDrainedReason ? "" : paused);
  for (const std::string& launcher : machine_.launchers) info.add_launchers(launcher);
  return info;
}

grpc::Status JobsService::GetServerInfo(const CallOrigin& origin, v1::ServerInfo& response) {
  return gate_.serve("GetServerInfo", origin, Role::kRead, "",
                     [&](const Caller&, std::string&) { response = server_info(); });
}

grpc::Status JobsService::DrainServer(const CallOrigin& origin, v1::ServerInfo& response) {
  return gate_.serve("DrainServer", origin, Role::kAdmin, "", [&](const Caller&, std::string&) {
    drain_.set(true);
    spdlog::info("drained: no job is started from now on");
    response = server_info();
  });
}

grpc::Status JobsService::ResumeServer(const CallOrigin& origin, v1::ServerInfo& response) {
  return gate_.serve("ResumeServer", origin, Role::kAdmin, "", [&](const Caller&, std::string&) {
    drain_.set(false);
    spdlog::info("resumed: jobs are started again");
    response = server_info();
  });
}

}  // namespace dotresize
