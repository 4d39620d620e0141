#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "dotresize/v1/jobs.grpc.pb.h"
#include "server/job_admission.h"
#include "server/job_store.h"
#include "server/state_dir.h"
#include "server/stream_pump.h"
#include "server/trash.h"

namespace dotresize {

/// Says where the next page begins, and of which filter: positions are those of the job table, so
/// new jobs do not shift pages.
std::string make_page_token(int64_t next_before, const v1::ListJobsRequest::Filter& filter);

/// The position; 0 for an empty token. INVALID_ARGUMENT for a token that was not made for this
/// filter.
int64_t read_page_token(const std::string& token, const v1::ListJobsRequest::Filter& filter);

/// The public API (proto/dotresize/v1/jobs.proto) on top of the job table; the
/// scheduler runs the jobs.
class JobsService final : public v1::Jobs::WithCallbackMethod_WatchJob<
                              v1::Jobs::WithCallbackMethod_GetLogs<v1::Jobs::Service>> {
 public:
  JobsService(JobStore& store, const StateDir& state, Trash& trash, StreamPump& streams,
              const PathPolicy& paths, AdmissionLimits limits);

  grpc::Status CreateJob(grpc::ServerContext* context, const v1::CreateJobRequest* request,
                         v1::Job* response) override;
  grpc::Status GetJob(grpc::ServerContext* context, const v1::GetJobRequest* request,
                      v1::Job* response) override;
  grpc::Status ListJobs(grpc::ServerContext* context, const v1::ListJobsRequest* request,
                        v1::ListJobsResponse* response) override;
  grpc::ServerWriteReactor<v1::Event>* WatchJob(grpc::CallbackServerContext* context,
                                                const v1::WatchJobRequest* request) override;
  grpc::Status CancelJob(grpc::ServerContext* context, const v1::CancelJobRequest* request,
                         v1::Job* response) override;
  grpc::Status ResumeJob(grpc::ServerContext* context, const v1::ResumeJobRequest* request,
                         v1::Job* response) override;
  grpc::Status DeleteJob(grpc::ServerContext* context, const v1::DeleteJobRequest* request,
                         google::protobuf::Empty* response) override;
  grpc::ServerWriteReactor<v1::LogChunk>* GetLogs(grpc::CallbackServerContext* context,
                                                  const v1::GetLogsRequest* request) override;

 private:
  v1::Job create(const v1::CreateJobRequest& request);
  v1::Job resume(const v1::ResumeJobRequest& request);

  JobStore& store_;
  const StateDir& state_;
  Trash& trash_;
  StreamPump& streams_;
  const PathPolicy& paths_;
  const AdmissionLimits limits_;
};

}  // namespace dotresize
