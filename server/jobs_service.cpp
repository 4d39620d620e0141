#include "server/jobs_service.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <filesystem>
#include <memory>
#include <utility>

#include "base/parse_number.h"
#include "base/partial_path.h"
#include "base/printable.h"
#include "job/spec/job_state.h"
#include "server/api_error.h"
#include "server/files.h"
#include "server/job_output.h"

namespace dotresize {
namespace {

/// FNV-1a over the filter: enough to catch a token that is used with another filter.
uint64_t fingerprint(const v1::ListJobsRequest::Filter& filter) {
  uint64_t hash = 14695981039346656037u;
  for (const char c : filter.SerializeAsString()) {
    hash = (hash ^ static_cast<uint8_t>(c)) * 1099511628211u;
  }
  return hash;
}

constexpr int kDefaultPage = 100;
constexpr int kMaxPage = 1000;
constexpr int kMaxStatesInFilter = 10;
constexpr size_t kMaxNameBytes = 400;  // 100 characters of UTF-8
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

/// The events of a job until it has ended.
class EventStream final : public PumpedStream<v1::Event> {
 public:
  EventStream(StreamPump& pump, JobStore& store, const v1::WatchJobRequest& request)
      : PumpedStream(pump, "WatchJob"),
        store_(store),
        id_(request.id()),
        seen_(request.after_seq()) {}

 private:
  bool fill(std::deque<v1::Event>& pending) override {
    // Before the events: once it has ended, they are complete.
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

/// The log of a job as far as it is written, or until the job has ended.
class LogStream final : public PumpedStream<v1::LogChunk> {
 public:
  LogStream(StreamPump& pump, JobStore& store, std::filesystem::path log,
            const v1::GetLogsRequest& request)
      : PumpedStream(pump, "GetLogs"),
        store_(store),
        log_(std::move(log)),
        id_(request.id()),
        follow_(request.follow()),
        offset_(request.offset()) {}

 private:
  bool fill(std::deque<v1::LogChunk>& pending) override {
    // Before the file: once the job has ended, its log is complete.
    const bool ended = has_ended(store_.position(id_).state);
    v1::LogChunk chunk;
    chunk.set_data(read_chunk(log_, offset_, kLogChunkBytes));
    if (chunk.data().empty()) return ended || !follow_;
    offset_ += static_cast<int64_t>(chunk.data().size());
    chunk.set_next_offset(offset_);
    pending.push_back(std::move(chunk));
    return false;
  }

  JobStore& store_;
  const std::filesystem::path log_;
  const std::string id_;
  const bool follow_;
  int64_t offset_;
};

/// Whom the limits of streams are for: an address, without the port.
std::string caller_of(const grpc::CallbackServerContext& context) {
  const std::string peer = context.peer();
  return peer.substr(0, peer.rfind(':'));
}

/// The stream that `make` makes, or one that is refused.
template <class Message, class Make>
grpc::ServerWriteReactor<Message>* start_stream(const char* method, StreamPump& pump,
                                                const grpc::CallbackServerContext& context,
                                                const Make& make) {
  grpc::ServerWriteReactor<Message>* reactor = nullptr;
  const grpc::Status status = answer(method, [&] {
    auto stream = make();
    pump.add(stream, caller_of(context));
    reactor = stream.get();  // kept by the pump until the call is over
  });
  return status.ok() ? reactor : new RefusedStream<Message>(status);
}

JobQuery query_of(const v1::ListJobsRequest& request) {
  if (request.page_size() < 0 || request.page_size() > kMaxPage) {
    throw invalid_argument("page_size",
                           std::to_string(request.page_size()) + " is not from 0 to 1000");
  }
  if (request.filter().name().size() > kMaxNameBytes) {
    throw invalid_argument("filter.name", "is longer than the name of any job");
  }
  if (request.filter().states_size() > kMaxStatesInFilter) {
    throw invalid_argument("filter.states", "has more entries than there are states");
  }
  JobQuery query;
  query.limit = request.page_size() == 0 ? kDefaultPage : request.page_size();
  query.before = read_page_token(request.page_token(), request.filter());
  query.name = request.filter().name();
  for (const int state : request.filter().states()) {
    if (!v1::Job::State_IsValid(state) || state == v1::Job::STATE_UNSPECIFIED) {
      throw invalid_argument("filter.states", std::to_string(state) + " is not the state of a job");
    }
    query.states.push_back(static_cast<v1::Job::State>(state));
  }
  return query;
}

}  // namespace

std::string make_page_token(int64_t next_before, const v1::ListJobsRequest::Filter& filter) {
  return fmt::format("{:x}.{:x}", next_before, fingerprint(filter));
}

int64_t read_page_token(const std::string& token, const v1::ListJobsRequest::Filter& filter) {
  if (token.empty()) return 0;
  const size_t dot = token.find('.');
  const auto position = parse_number<int64_t>(token.substr(0, dot), 16);
  const auto print =
      dot == std::string::npos ? std::nullopt : parse_number<uint64_t>(token.substr(dot + 1), 16);
  if (position.value_or(0) <= 0 || print != fingerprint(filter)) {
    throw invalid_argument("page_token",
                           "is not the next_page_token of an answer to the same filter");
  }
  return *position;
}

JobsService::JobsService(JobStore& store, const StateDir& state, Trash& trash, StreamPump& streams,
                         const PathPolicy& paths, AdmissionLimits limits)
    : store_(store),
      state_(state),
      trash_(trash),
      streams_(streams),
      paths_(paths),
      limits_(limits) {}

grpc::Status JobsService::CreateJob(grpc::ServerContext*, const v1::CreateJobRequest* request,
                                    v1::Job* response) {
  return answer("CreateJob", [&] { *response = create(*request); });
}

v1::Job JobsService::create(const v1::CreateJobRequest& request) {
  if (!request.validate_only()) {
    // First: by now the output may exist, made by that very job.
    const auto earlier = store_.find_request(request.request_id(), request.spec());
    if (earlier) return *earlier;
  }
  const NewJob admitted = admit(request.spec(), request.request_id(), limits_, paths_);
  if (request.validate_only()) {
    v1::Job job;
    *job.mutable_spec() = admitted.spec;
    return job;
  }
  v1::Job job = store_.create(admitted);
  spdlog::info("job {}: accepted, '{}'", job.id(), job.spec().name());
  return job;
}

grpc::Status JobsService::GetJob(grpc::ServerContext*, const v1::GetJobRequest* request,
                                 v1::Job* response) {
  return answer("GetJob", [&] {
    check_id(request->id());
    *response = store_.get(request->id());
    if (response->state() == v1::Job::FAILED) {
      const int64_t bytes = size_of_directory(partial_path(store_.output_of(request->id())));
      if (bytes > 0) response->set_unfinished_bytes(bytes);
    }
  });
}

grpc::Status JobsService::ListJobs(grpc::ServerContext*, const v1::ListJobsRequest* request,
                                   v1::ListJobsResponse* response) {
  return answer("ListJobs", [&] {
    JobPage page = store_.list(query_of(*request));
    for (v1::Job& job : page.jobs) *response->add_jobs() = std::move(job);
    if (page.next_before > 0) {
      response->set_next_page_token(make_page_token(page.next_before, request->filter()));
    }
  });
}

grpc::ServerWriteReactor<v1::Event>* JobsService::WatchJob(grpc::CallbackServerContext* context,
                                                           const v1::WatchJobRequest* request) {
  return start_stream<v1::Event>("WatchJob", streams_, *context, [&] {
    check_id(request->id());
    check_not_negative("after_seq", request->after_seq());
    return std::make_shared<EventStream>(streams_, store_, *request);
  });
}

grpc::Status JobsService::CancelJob(grpc::ServerContext*, const v1::CancelJobRequest* request,
                                    v1::Job* response) {
  return answer("CancelJob", [&] {
    check_id(request->id());
    *response = store_.request_cancel(request->id());
    if (response->state() == v1::Job::CANCELLED && response->attempt() > 0) {
      // It waited for another attempt: the scheduler does not end it.
      JobOutput(store_.output_of(request->id()), request->id()).discard(trash_).remove();
    }
    spdlog::info("job {}: cancel asked for while {}", response->id(),
                 v1::Job::State_Name(response->state()));
  });
}

grpc::Status JobsService::ResumeJob(grpc::ServerContext*, const v1::ResumeJobRequest* request,
                                    v1::Job* response) {
  return answer("ResumeJob", [&] {
    check_id(request->id());
    *response = resume(*request);
    spdlog::info("job {}: queued again{}", response->id(), request->fresh() ? ", afresh" : "");
  });
}

v1::Job JobsService::resume(const v1::ResumeJobRequest& request) {
  const std::string output = store_.output_of(request.id());
  const v1::JobSpec resolved = readmit(store_.get(request.id()).spec(), output, paths_);
  TrashedDirectory unfinished;
  v1::Job job = store_.requeue(request.id(), claims_of(resolved),
                               [&](const v1::Job& row, const std::string& path) {
                                 if (request.fresh())
                                   unfinished = JobOutput(path, row.id()).discard(trash_);
                               });
  unfinished.remove();
  return job;
}

grpc::Status JobsService::DeleteJob(grpc::ServerContext*, const v1::DeleteJobRequest* request,
                                    google::protobuf::Empty*) {
  return answer("DeleteJob", [&] {
    check_id(request->id());
    TrashedDirectory unfinished;
    TrashedDirectory folder;
    store_.remove(request->id(), [&](const v1::Job& job, const std::string& output) {
      if (job.state() != v1::Job::SUCCEEDED && job.attempt() > 0) {
        unfinished = JobOutput(output, job.id()).discard(trash_);
      }
      folder = trash_.take(state_.job(job.id()));
    });
    unfinished.remove();
    folder.remove();
    spdlog::info("job {}: deleted", request->id());
  });
}

grpc::ServerWriteReactor<v1::LogChunk>* JobsService::GetLogs(grpc::CallbackServerContext* context,
                                                             const v1::GetLogsRequest* request) {
  return start_stream<v1::LogChunk>("GetLogs", streams_, *context, [&] {
    check_id(request->id());
    check_not_negative("offset", request->offset());
    return std::make_shared<LogStream>(streams_, store_, state_.log(request->id()), *request);
  });
}

}  // namespace dotresize
