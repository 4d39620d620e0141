#include "tests/client/fake_jobs.h"

#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server_builder.h>

#include <chrono>
#include <stdexcept>
#include <utility>

namespace dotresize {

class FakeServer::Service final : public v1::Jobs::Service {
 public:
  explicit Service(FakeAnswers answers) : answers_(std::move(answers)) {}

  grpc::Status CreateJob(grpc::ServerContext*, const v1::CreateJobRequest* request,
                         v1::Job* job) override {
    return answers_.create ? answers_.create(*request, *job) : kUnimplemented;
  }
  grpc::Status GetJob(grpc::ServerContext*, const v1::GetJobRequest*, v1::Job* job) override {
    return answers_.get ? answers_.get(*job) : kUnimplemented;
  }
  grpc::Status ListJobs(grpc::ServerContext*, const v1::ListJobsRequest* request,
                        v1::ListJobsResponse* response) override {
    return answers_.list ? answers_.list(*request, *response) : kUnimplemented;
  }
  grpc::Status DeleteJob(grpc::ServerContext*, const v1::DeleteJobRequest* request,
                         google::protobuf::Empty*) override {
    return answers_.remove ? answers_.remove(request->id()) : kUnimplemented;
  }
  grpc::Status WatchJob(grpc::ServerContext*, const v1::WatchJobRequest* request,
                        grpc::ServerWriter<v1::Event>* writer) override {
    return answers_.watch ? answers_.watch(*request, *writer) : kUnimplemented;
  }
  grpc::Status WatchJobs(grpc::ServerContext*, const v1::WatchJobsRequest* request,
                         grpc::ServerWriter<v1::JobChange>* writer) override {
    return answers_.watch_all ? answers_.watch_all(*request, *writer) : kUnimplemented;
  }
  grpc::Status GetServerInfo(grpc::ServerContext*, const v1::GetServerInfoRequest*,
                             v1::ServerInfo*) override {
    return answers_.watch_all ? grpc::Status::OK : kUnimplemented;
  }
  grpc::Status GetLogs(grpc::ServerContext*, const v1::GetLogsRequest* request,
                       grpc::ServerWriter<v1::LogChunk>* writer) override {
    return answers_.logs ? answers_.logs(*request, *writer) : kUnimplemented;
  }

 private:
  inline static const grpc::Status kUnimplemented{grpc::UNIMPLEMENTED, ""};
  FakeAnswers answers_;
};

FakeServer::FakeServer(FakeAnswers answers, int port)
    : service_(std::make_unique<Service>(std::move(answers))) {
  grpc::ServerBuilder builder;
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  builder.AddListeningPort("127.0.0.1:" + std::to_string(port), grpc::InsecureServerCredentials(),
                           &port_);
  builder.RegisterService(service_.get());
  server_ = builder.BuildAndStart();
  if (!server_) throw std::runtime_error("cannot listen on port " + std::to_string(port));
}

FakeServer::~FakeServer() { server_->Shutdown(std::chrono::system_clock::now()); }

v1::Event state_event(int64_t seq, v1::Job::State state) {
  v1::Event event;
  event.set_seq(seq);
  event.mutable_state_change()->set_state(state);
  return event;
}

v1::Event progress_event(int64_t seq, double fraction) {
  v1::Event event;
  event.set_seq(seq);
  event.mutable_progress()->set_fraction(fraction);
  return event;
}

}  // namespace dotresize
