#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "dotresize/v1/jobs.grpc.pb.h"
#include "server/job_admission.h"
#include "server/job_store.h"
#include "server/state_dir.h"
#include "server/trash.h"

namespace dotresize {

/// Bounds the streams that are open at the same time (each takes a thread), and tells them when the
/// server stops.
class StreamSlots {
 public:
  explicit StreamSlots(int limit) : free_(limit) {}

  /// One open stream. RESOURCE_EXHAUSTED if there are too many.
  class Slot {
   public:
    explicit Slot(StreamSlots& slots);
    Slot(const Slot&) = delete;
    Slot& operator=(const Slot&) = delete;
    ~Slot() { ++slots_.free_; }

   private:
    StreamSlots& slots_;
  };

  void stop() { stopping_ = true; }
  /// UNAVAILABLE once the server is stopping: clients come back and resume.
  void check_stopping() const;

 private:
  std::atomic<int> free_;
  std::atomic<bool> stopping_{false};
};

/// Says where the next page begins, and of which filter: positions are those of the job table, so
/// new jobs do not shift pages.
std::string make_page_token(int64_t next_before, const v1::ListJobsRequest::Filter& filter);

/// The position; 0 for an empty token. INVALID_ARGUMENT for a token that was not made for this
/// filter.
int64_t read_page_token(const std::string& token, const v1::ListJobsRequest::Filter& filter);

/// The public API (proto/dotresize/v1/jobs.proto) on top of the job table; the
/// scheduler runs the jobs.
class JobsService final : public v1::Jobs::Service {
 public:
  JobsService(JobStore& store, const StateDir& state, Trash& trash, StreamSlots& streams,
              const PathPolicy& paths, AdmissionLimits limits);

  grpc::Status CreateJob(grpc::ServerContext* context, const v1::CreateJobRequest* request,
                         v1::Job* response) override;
  grpc::Status GetJob(grpc::ServerContext* context, const v1::GetJobRequest* request,
                      v1::Job* response) override;
  grpc::Status ListJobs(grpc::ServerContext* context, const v1::ListJobsRequest* request,
                        v1::ListJobsResponse* response) override;
  grpc::Status WatchJob(grpc::ServerContext* context, const v1::WatchJobRequest* request,
                        grpc::ServerWriter<v1::Event>* writer) override;
  grpc::Status CancelJob(grpc::ServerContext* context, const v1::CancelJobRequest* request,
                         v1::Job* response) override;
  grpc::Status ResumeJob(grpc::ServerContext* context, const v1::ResumeJobRequest* request,
                         v1::Job* response) override;
  grpc::Status DeleteJob(grpc::ServerContext* context, const v1::DeleteJobRequest* request,
                         google::protobuf::Empty* response) override;
  grpc::Status GetLogs(grpc::ServerContext* context, const v1::GetLogsRequest* request,
                       grpc::ServerWriter<v1::LogChunk>* writer) override;

 private:
  v1::Job create(const v1::CreateJobRequest& request);
  v1::Job resume(const v1::ResumeJobRequest& request);
  void watch(const grpc::ServerContext& context, const v1::WatchJobRequest& request,
             grpc::ServerWriter<v1::Event>& writer);
  void send_logs(const grpc::ServerContext& context, const v1::GetLogsRequest& request,
                 grpc::ServerWriter<v1::LogChunk>& writer);

  JobStore& store_;
  const StateDir& state_;
  Trash& trash_;
  StreamSlots& streams_;
  const PathPolicy& paths_;
  const AdmissionLimits limits_;
};

}  // namespace dotresize
