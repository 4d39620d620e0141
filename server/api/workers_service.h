#pragma once

#include "dotresize/v1/workers.grpc.pb.h"
#include "server/launch/heartbeats.h"
#include "server/store/job_store.h"

namespace dotresize {

/// Internal API for running jobs (proto/dotresize/v1/workers.proto). Every call carries its
/// attempt's token; any other call is UNAUTHENTICATED, whether or not the job exists.
class WorkersService final : public v1::Workers::Service {
 public:
  WorkersService(JobStore& store, Heartbeats& heartbeats)
      : store_(store), heartbeats_(heartbeats) {}

  grpc::Status Heartbeat(grpc::ServerContext* context, const v1::HeartbeatRequest* request,
                         v1::HeartbeatResponse* response) override;
  grpc::Status ReportFailure(grpc::ServerContext* context, const v1::ReportFailureRequest* request,
                             v1::ReportFailureResponse* response) override;

 private:
  void authenticate(const grpc::ServerContext& context, const std::string& job_id, int attempt);

  JobStore& store_;
  Heartbeats& heartbeats_;
};

}  // namespace dotresize
