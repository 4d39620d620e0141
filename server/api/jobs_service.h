#pragma once

#include <functional>
#include <string>
#include <vector>

#include "dotresize/v1/jobs.grpc.pb.h"
#include "server/access/call_gate.h"
#include "server/access/webhook_policy.h"
#include "server/admission/job_admission.h"
#include "server/api/artifacts.h"
#include "server/api/stream_pump.h"
#include "server/schedule/queue_view.h"
#include "server/store/job_store.h"
#include "server/store/resources.h"
#include "server/store/state_dir.h"
#include "server/store/trash.h"

namespace dotresize {

/// Parts that the API works with; all outlive the service.
struct JobsContext {
  JobStore& store;
  const StateDir& state;
  Trash& trash;
  StreamPump& streams;
  const PathPolicy& paths;
  CallGate& gate;
  const Machine& machine;
  KnownModels& models;
  Drain& drain;
  const QueueView& view;
  const WebhookPolicy& webhooks;
  StreamPump& transfers;  ///< separate pump for files, so that they do not delay followers of jobs
  bool models_leave = false;  ///< lets GetArtifact send models to their owners
};

/// Implementation of the public API (proto/dotresize/v1/jobs.proto) on the job table; the scheduler
/// runs the jobs.
class JobsService final
    : public v1::Jobs::WithCallbackMethod_WatchJob<
          v1::Jobs::WithCallbackMethod_WatchJobs<v1::Jobs::WithCallbackMethod_GetLogs<
              v1::Jobs::WithCallbackMethod_GetArtifact<v1::Jobs::Service>>>> {
 public:
  explicit JobsService(const JobsContext& parts) : parts_(parts) {}

  grpc::Status CreateJob(grpc::ServerContext* context, const v1::CreateJobRequest* request,
                         v1::Job* response) override;
  grpc::Status CreateSweep(grpc::ServerContext* context, const v1::CreateSweepRequest* request,
                           v1::Sweep* response) override;
  grpc::Status GetSweep(grpc::ServerContext* context, const v1::GetSweepRequest* request,
                        v1::Sweep* response) override;
  grpc::Status GetJob(grpc::ServerContext* context, const v1::GetJobRequest* request,
                      v1::Job* response) override {
    return GetJob(origin_of(*context), *request, *response);
  }
  grpc::Status ListJobs(grpc::ServerContext* context, const v1::ListJobsRequest* request,
                        v1::ListJobsResponse* response) override {
    return ListJobs(origin_of(*context), *request, *response);
  }
  grpc::ServerWriteReactor<v1::Event>* WatchJob(grpc::CallbackServerContext* context,
                                                const v1::WatchJobRequest* request) override;
  grpc::ServerWriteReactor<v1::JobChange>* WatchJobs(grpc::CallbackServerContext* context,
                                                     const v1::WatchJobsRequest* request) override;
  grpc::Status CancelJob(grpc::ServerContext* context, const v1::CancelJobRequest* request,
                         v1::Job* response) override {
    return CancelJob(origin_of(*context), *request, *response);
  }
  grpc::Status ResumeJob(grpc::ServerContext* context, const v1::ResumeJobRequest* request,
                         v1::Job* response) override {
    return ResumeJob(origin_of(*context), *request, *response);
  }
  grpc::Status DeleteJob(grpc::ServerContext* context, const v1::DeleteJobRequest* request,
                         google::protobuf::Empty*) override {
    return DeleteJob(origin_of(*context), *request);
  }
  grpc::ServerWriteReactor<v1::LogChunk>* GetLogs(grpc::CallbackServerContext* context,
                                                  const v1::GetLogsRequest* request) override;
  grpc::Status ListArtifacts(grpc::ServerContext* context, const v1::ListArtifactsRequest* request,
                             v1::ListArtifactsResponse* response) override;
  grpc::ServerWriteReactor<v1::ArtifactChunk>* GetArtifact(
      grpc::CallbackServerContext* context, const v1::GetArtifactRequest* request) override;
  grpc::Status GetServerInfo(grpc::ServerContext* context, const v1::GetServerInfoRequest*,
                             v1::ServerInfo* response) override {
    return GetServerInfo(origin_of(*context), *response);
  }
  grpc::Status DrainServer(grpc::ServerContext* context, const v1::DrainServerRequest*,
                           v1::ServerInfo* response) override {
    return SetDrained(origin_of(*context), true, *response);
  }
  grpc::Status ResumeServer(grpc::ServerContext* context, const v1::ResumeServerRequest*,
                            v1::ServerInfo* response) override {
    return SetDrained(origin_of(*context), false, *response);
  }

  // Overloads of these calls for callers outside gRPC: the web pages.
  grpc::Status GetJob(const CallOrigin& origin, const v1::GetJobRequest& request,
                      v1::Job& response);
  grpc::Status ListJobs(const CallOrigin& origin, const v1::ListJobsRequest& request,
                        v1::ListJobsResponse& response);
  /// Lists the first `limit` jobs of the queue, in its order, each as GetJob returns it.
  grpc::Status ListQueue(const CallOrigin& origin, int limit, std::vector<v1::Job>& response);
  grpc::Status CancelJob(const CallOrigin& origin, const v1::CancelJobRequest& request,
                         v1::Job& response);
  grpc::Status ResumeJob(const CallOrigin& origin, const v1::ResumeJobRequest& request,
                         v1::Job& response);
  grpc::Status DeleteJob(const CallOrigin& origin, const v1::DeleteJobRequest& request);
  /// Passes a file that does not belong to the model itself to `take`.
  grpc::Status ReadArtifact(const CallOrigin& origin, const std::string& id,
                            const std::string& name, const std::function<void(ArtifactFile)>& take);
  grpc::Status GetServerInfo(const CallOrigin& origin, v1::ServerInfo& response);
  /// DrainServer and ResumeServer.
  grpc::Status SetDrained(const CallOrigin& origin, bool drained, v1::ServerInfo& response);

 private:
  struct StreamKind {
    const char* method;
    Role least;
    StreamPump& pump;
    CallGate::Condition condition = {};  ///< for as long as the stream lasts; may be empty
  };
  /// Starts a stream through CallGate::serve(). Returns the stream, or a RefusedStream.
  /// `make(holder)` makes it, without waiting for a disk of users: it runs on a thread of gRPC.
  template <class Message, class Make>
  grpc::ServerWriteReactor<Message>* start_stream(const StreamKind& kind,
                                                  const grpc::CallbackServerContext& context,
                                                  const std::string& id, const Make& make);
  /// Throws UNAVAILABLE if the disk of the state directory is nearly full.
  void require_space() const;
  /// Reads the job as it is stored. Throws INVALID_ARGUMENT, NOT_FOUND.
  v1::Job stored(const std::string& id);
  /// Adds what is known about a job outside the table.
  void describe(v1::Job& job);
  /// Returns the sweep of this job, with the results that exist so far.
  v1::Sweep describe_sweep(v1::Job job);
  /// Throws PERMISSION_DENIED unless the caller may fetch the job's model.
  void require_model(const Caller& caller, const v1::Job& job) const;
  OpenArtifact open_artifact(const std::string& id, const std::string& name);
  v1::ServerInfo server_info();

  const JobsContext parts_;
};

template <class Message, class Make>
grpc::ServerWriteReactor<Message>* JobsService::start_stream(
    const StreamKind& kind, const grpc::CallbackServerContext& context, const std::string& id,
    const Make& make) {
  grpc::ServerWriteReactor<Message>* reactor = nullptr;
  CallOrigin origin = origin_of(context);
  origin.call =
      nullptr;  // the permit outlives the call, and a stream keeps no memory of its beginning
  auto permit = std::make_shared<Permit>(parts_.gate, kind.method, std::move(origin), kind.least,
                                         id, kind.condition);
  const grpc::Status status = parts_.gate.serve(
      kind.method, permit->origin(), kind.least, id, [&](const Caller& caller, const std::string&) {
        if (kind.condition) kind.condition(caller);
        const std::string holder = holder_of(caller, permit->origin());
        auto stream = make(holder);
        kind.pump.add(stream, permit, holder);
        reactor = stream.get();  // owned by the pump until the call is over
      });
  return status.ok() ? reactor : new RefusedStream<Message>(status);
}

}  // namespace dotresize
