#pragma once

#include "dotresize/v1/jobs.grpc.pb.h"
#include "server/job_admission.h"
#include "server/job_store.h"
#include "server/state_dir.h"
#include "server/stream_slots.h"

namespace dotresize {

/// The public API (proto/dotresize/v1/jobs.proto) on top of the job table; the
/// scheduler runs the jobs.
class JobsService final : public v1::Jobs::Service {
 public:
  JobsService(JobStore& store, const StateDir& state, StreamSlots& streams, AdmissionLimits limits);

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
  grpc::Status DeleteJob(grpc::ServerContext* context, const v1::DeleteJobRequest* request,
                         google::protobuf::Empty* response) override;
  grpc::Status GetLogs(grpc::ServerContext* context, const v1::GetLogsRequest* request,
                       grpc::ServerWriter<v1::LogChunk>* writer) override;

 private:
  v1::Job create(const v1::CreateJobRequest& request);
  void watch(const grpc::ServerContext& context, const v1::WatchJobRequest& request,
             grpc::ServerWriter<v1::Event>& writer);
  void send_logs(const grpc::ServerContext& context, const v1::GetLogsRequest& request,
                 grpc::ServerWriter<v1::LogChunk>& writer);

  JobStore& store_;
  const StateDir& state_;
  StreamSlots& streams_;
  const AdmissionLimits limits_;
};

}  // namespace dotresize
