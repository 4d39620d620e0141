#include <google/protobuf/io/tokenizer.h>
#include <google/protobuf/text_format.h>
#include <grpcpp/grpcpp.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <list>
#include <memory>
#include <vector>

#include "base/text/printable.h"
#include "job/status/job_rows.h"
#include "server/access/access.h"
#include "server/api/jobs_service.h"
#include "server/api/workers_service.h"
#include "server/launch/outcome.h"
#include "tests/fuzz/calls.pb.h"
#include "tests/fuzz/targets.h"
#include "tests/temporary_directory.h"

namespace dotresize {
namespace {

namespace fs = std::filesystem;

constexpr int kMaxCalls = 16;
constexpr int kMaxStreams = kMaxCalls;
constexpr size_t kMaxCombinations = 16;  // each combination is planned
constexpr int kMaxEvents = 1000;
constexpr int kMaxDepth = 100;  // nesting of messages, the same limit as over the wire

/// The working directory; jobs name a model and texts in it by /proc/self/cwd/data/model.
class Home : public TemporaryDirectory {
 public:
  Home() {
    const fs::path model = fs::path(DOTRESIZE_SOURCE_DIR) / "examples" / "docs-llama";
    fs::create_directories(path() / "data/model");
    for (const char* file : {"config.json", "tokenizer.json"})
      fs::copy(model / file, path() / "data/model" / file);
    put_file(path() / "data/text.txt", std::string(1 << 20, 'a'));
    put_file(path() / "data/tokens.safetensors", "");
    fs::current_path(path());
  }
};

/// Services of a server without jobs, called without a socket.
class Services {
 public:
  Services() {
    google::protobuf::SetLogHandler(nullptr);
    spdlog::set_level(spdlog::level::err);
    machine_.capacity = {8, 2, int64_t{8} << 30};
    machine_.gpus = {"0", "1"};
    grpc::ServerBuilder builder;
    builder.RegisterService(&jobs_service_);
    builder.RegisterService(&workers_service_);
    server_ = builder.BuildAndStart();
    const auto channel = server_->InProcessChannel({});
    jobs = v1::Jobs::NewStub(channel);
    workers = v1::Workers::NewStub(channel);
  }

  StateDir& state() { return state_; }
  JobStore& store() { return store_; }
  Drain& drain() { return drain_; }
  const SecretToken& token() const { return token_; }
  std::unique_ptr<v1::Jobs::Stub> jobs;
  std::unique_ptr<v1::Workers::Stub> workers;

  /// Plays the scheduler: begins an attempt of a queued job.
  void start(const std::string& id) {
    store_.begin_attempt(id, token_.sha256, "0");
    heartbeats_.begin(id);
    fs::create_directories(state_.job(id));
    put_file(state_.log(id), "a line of the log\n");
  }
  void finish(const std::string& id, v1::Job::State state) {
    Outcome outcome;
    outcome.state = state;
    if (state == v1::Job::FAILED)
      outcome.error = to_job_error({"RANK_FAILED", 0, "host", "calibrate", "fuzzed"});
    store_.finish(id, outcome);
    heartbeats_.forget(id);
  }

 private:
  Home home_;
  StateDir state_{home_ / "state"};
  JobStore store_{state_.database};
  Trash trash_{state_.trash};
  PathPolicy paths_{{home_ / "data"}, state_.root};
  Machine machine_;
  KnownModels models_;
  Drain drain_{state_.root / "drained"};
  QueueView view_;
  Access access_{""};
  AuditLog audit_{"/dev/null"};
  CallGate gate_{access_, audit_, /*max_rate=*/0};
  Heartbeats heartbeats_;
  StreamPump streams_{store_.changes(), {.of_one = kMaxStreams}};
  WebhookPolicy webhooks_{{}};
  StreamPump transfers_{store_.changes(), {.of_one = kMaxStreams}};
  JobsService jobs_service_{{store_, state_, trash_, streams_, paths_, gate_, machine_, models_,
                             drain_, view_, webhooks_, transfers_, /*models_leave=*/true}};
  WorkersService workers_service_{store_, heartbeats_};
  SecretToken token_ = make_secret_token();
  std::unique_ptr<grpc::Server> server_;
};

/// Returns whether a client can send the request: strings of a message are UTF-8.
template <class Request>
bool can_be_sent(const Request& request) {
  return Request().ParseFromString(request.SerializeAsString());
}

size_t combinations(const v1::SweepSpec& sweep) {
  size_t count = 1;
  for (const v1::SweepSpec::Axis& axis : sweep.axes()) {
    count *= std::max<size_t>(1, static_cast<size_t>(axis.values().values_size()));
    if (count > kMaxCombinations) break;
  }
  return count;
}

/// Consecutive calls, from a state without jobs back to one.
class Session {
 public:
  explicit Session(Services& services) : services_(services) {}

  void make(const v1::FuzzedCall& call);
  void end();

 private:
  /// A stream that follows jobs; read at the end of the session.
  struct Stream {
    std::unique_ptr<grpc::ClientContext> context;
    std::function<grpc::Status()> read_to_the_end;
  };

  std::unique_ptr<grpc::ClientContext> context() const {
    auto context = std::make_unique<grpc::ClientContext>();
    context->AddMetadata("authorization", "Bearer " + services_.token().secret);
    return context;
  }

  /// Returns the request with its placeholder ("1" to "9") replaced by a job's id.
  template <class Request>
  Request with_id(Request request) const {
    const auto* field = Request::descriptor()->FindFieldByName("id");
    if (field == nullptr) field = Request::descriptor()->FindFieldByName("job_id");
    if (field == nullptr) return request;
    const auto& reflection = *request.GetReflection();
    const std::string given = reflection.GetString(request, field);
    if (given.size() != 1 || given[0] < '1') return request;
    const auto number = static_cast<size_t>(given[0] - '1');
    if (number < ids_.size()) reflection.SetString(&request, field, ids_[number]);
    return request;
  }

  /// Returns whether the call succeeded and filled `response`. Ends the program on a server error.
  template <class Stub, class Request, class Response>
  bool unary(Stub& stub,
             grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&, Response*),
             const Request& request, Response& response) const {
    if (!can_be_sent(request)) return false;
    const grpc::Status status = (stub.*method)(context().get(), with_id(request), &response);
    check(Request::descriptor()->name(), status);
    return status.ok();
  }
  template <class Request, class Response>
  bool job_call(grpc::Status (v1::Jobs::Stub::*method)(grpc::ClientContext*, const Request&,
                                                       Response*),
                const Request& request, Response response = {}) const {
    return unary(*services_.jobs, method, request, response);
  }

  template <class Request, class Message>
  void follow(std::unique_ptr<grpc::ClientReader<Message>> (v1::Jobs::Stub::*method)(
                  grpc::ClientContext*, const Request&),
              const Request& request) {
    if (!can_be_sent(request)) return;
    auto stream_context = context();
    std::shared_ptr<grpc::ClientReader<Message>> reader =
        ((*services_.jobs).*method)(stream_context.get(), with_id(request));
    const auto read_to_the_end = [reader, context = stream_context.get()] {
      Message message;
      while (reader->Read(&message)) {
        if (is_last(message)) context->TryCancel();
      }
      return reader->Finish();
    };
    streams_.push_back({std::move(stream_context), read_to_the_end});
  }

  /// Returns whether the client ends the stream after this message.
  static bool is_last(const v1::JobChange& change) {
    return change.kind() == v1::JobChange::SYNCED;
  }
  template <class Message>
  static bool is_last(const Message&) {
    return false;
  }

  static void check(const std::string& call, const grpc::Status& status) {
    const grpc::StatusCode code = status.error_code();
    const bool servers_fault =
        code == grpc::StatusCode::INTERNAL || code == grpc::StatusCode::UNKNOWN ||
        code == grpc::StatusCode::UNAVAILABLE || code == grpc::StatusCode::UNIMPLEMENTED;
    require(!servers_fault,
            call + " is answered, not with " + std::to_string(code) + " " + status.error_message());
    require(is_printable(status.error_message()), "the error of " + call + " is one line of text");
  }

  void add(const v1::Job& job) {
    if (job.id().empty() || std::ranges::find(ids_, job.id()) != ids_.end()) return;
    ids_.push_back(job.id());
  }

  v1::Job::State state_of(const std::string& id) const {
    const auto known = std::ranges::find(ids_, id);
    if (known == ids_.end()) return v1::Job::STATE_UNSPECIFIED;
    v1::GetJobRequest request;
    request.set_id(id);
    v1::Job job;
    return unary(*services_.jobs, &v1::Jobs::Stub::GetJob, request, job)
               ? job.state()
               : v1::Job::STATE_UNSPECIFIED;
  }

  void start(const v1::GetJobRequest& request) {
    if (state_of(request.id()) == v1::Job::QUEUED) services_.start(request.id());
  }
  void fail(const v1::GetJobRequest& request) {
    if (is_launched(state_of(request.id()))) services_.finish(request.id(), v1::Job::FAILED);
  }
  void create_sweep(const v1::CreateSweepRequest& request) {
    v1::Sweep sweep;
    if (combinations(request.sweep()) > kMaxCombinations) return;
    if (unary(*services_.jobs, &v1::Jobs::Stub::CreateSweep, request, sweep)) add(sweep.job());
  }
  void create_job(const v1::CreateJobRequest& request) {
    v1::Job job;
    if (unary(*services_.jobs, &v1::Jobs::Stub::CreateJob, request, job)) add(job);
  }
  void check_events(const std::string& id) const {
    int64_t seq = 0;
    for (const v1::Event& event : services_.store().events_after(id, 0, kMaxEvents)) {
      require(event.seq() == ++seq, "events are numbered without a gap");
    }
  }

  Services& services_;
  std::vector<std::string> ids_;
  std::list<Stream> streams_;
};

void Session::make(const v1::FuzzedCall& call) {
  using Stub = v1::Jobs::Stub;
  switch (call.call_case()) {
    case v1::FuzzedCall::kCreateJob:
      return create_job(call.create_job());
    case v1::FuzzedCall::kCreateSweep:
      return create_sweep(call.create_sweep());
    case v1::FuzzedCall::kGetSweep:
      return void(job_call(&Stub::GetSweep, call.get_sweep()));
    case v1::FuzzedCall::kGetJob:
      return void(job_call(&Stub::GetJob, call.get_job()));
    case v1::FuzzedCall::kListJobs:
      return void(job_call(&Stub::ListJobs, call.list_jobs()));
    case v1::FuzzedCall::kWatchJob:
      return follow(&Stub::WatchJob, call.watch_job());
    case v1::FuzzedCall::kWatchJobs:
      return follow(&Stub::WatchJobs, call.watch_jobs());
    case v1::FuzzedCall::kCancelJob:
      return void(job_call(&Stub::CancelJob, call.cancel_job()));
    case v1::FuzzedCall::kResumeJob:
      return void(job_call(&Stub::ResumeJob, call.resume_job()));
    case v1::FuzzedCall::kDeleteJob:
      return void(job_call(&Stub::DeleteJob, call.delete_job()));
    case v1::FuzzedCall::kGetLogs:
      return follow(&Stub::GetLogs, call.get_logs());
    case v1::FuzzedCall::kListArtifacts:
      return void(job_call(&Stub::ListArtifacts, call.list_artifacts()));
    case v1::FuzzedCall::kGetArtifact:
      return follow(&Stub::GetArtifact, call.get_artifact());
    case v1::FuzzedCall::kGetServerInfo:
      return void(job_call(&Stub::GetServerInfo, call.get_server_info()));
    case v1::FuzzedCall::kDrainServer:
      return void(job_call(&Stub::DrainServer, call.drain_server()));
    case v1::FuzzedCall::kResumeServer:
      return void(job_call(&Stub::ResumeServer, call.resume_server()));
    case v1::FuzzedCall::kHeartbeat: {
      v1::HeartbeatResponse response;
      return void(
          unary(*services_.workers, &v1::Workers::Stub::Heartbeat, call.heartbeat(), response));
    }
    case v1::FuzzedCall::kReportFailure: {
      v1::ReportFailureResponse response;
      return void(unary(*services_.workers, &v1::Workers::Stub::ReportFailure,
                        call.report_failure(), response));
    }
    case v1::FuzzedCall::kStart:
      return start(with_id(call.start()));
    case v1::FuzzedCall::kFail:
      return fail(with_id(call.fail()));
    case v1::FuzzedCall::CALL_NOT_SET:
      return;
  }
}

void Session::end() {
  for (const std::string& id : ids_) {
    const v1::Job::State state = state_of(id);
    if (state == v1::Job::QUEUED) services_.store().request_cancel(id);
    if (is_launched(state)) services_.finish(id, v1::Job::CANCELLED);
  }
  for (const Stream& stream : streams_) check("a stream", stream.read_to_the_end());
  for (const std::string& id : ids_) {
    if (state_of(id) == v1::Job::STATE_UNSPECIFIED) continue;  // deleted
    check_events(id);
    v1::DeleteJobRequest request;
    request.set_id(id);
    require(job_call(&v1::Jobs::Stub::DeleteJob, request), "an ended job can be deleted");
  }
  require(services_.store().list({}).jobs.empty(), "a job that was made is known");
  services_.drain().set(false);
}

bool parse_calls(const std::string& bytes, v1::FuzzedCalls& calls) {
  class Silence final : public google::protobuf::io::ErrorCollector {
    void AddError(int, google::protobuf::io::ColumnNumber, const std::string&) override {}
  } silence;
  google::protobuf::TextFormat::Parser parser;
  parser.RecordErrorsTo(&silence);
  parser.SetRecursionLimit(kMaxDepth);
  return parser.ParseFromString(bytes, &calls) || calls.ParseFromString(bytes);
}

}  // namespace

void fuzz_calls(const std::string& bytes) {
  v1::FuzzedCalls calls;
  if (!parse_calls(bytes, calls)) return;
  static Services services;
  Session session(services);
  for (int i = 0; i < std::min(calls.calls_size(), kMaxCalls); ++i) session.make(calls.calls(i));
  session.end();
}

}  // namespace dotresize
