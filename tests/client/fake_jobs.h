#pragma once

#include <grpcpp/server.h>

#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "dotresize/v1/jobs.grpc.pb.h"

namespace dotresize {

/// Answers of the server, chosen by a test. Calls without a handler are UNIMPLEMENTED.
struct FakeAnswers {
  std::function<grpc::Status(const v1::CreateJobRequest&, v1::Job&)> create = {};
  std::function<grpc::Status(v1::Job&)> get = {};
  std::function<grpc::Status(const v1::ListJobsRequest&, v1::ListJobsResponse&)> list = {};
  std::function<grpc::Status(const std::string& id)> remove = {};
  std::function<grpc::Status(const v1::WatchJobRequest&, grpc::ServerWriter<v1::Event>&)> watch =
      {};
  std::function<grpc::Status(const v1::GetLogsRequest&, grpc::ServerWriter<v1::LogChunk>&)> logs =
      {};
  /// If set, the server also answers GetServerInfo (with an empty message).
  std::function<grpc::Status(const v1::WatchJobsRequest&, grpc::ServerWriter<v1::JobChange>&)>
      watch_all = {};
};

/// A real gRPC server on a loopback port that gives a test's answers.
class FakeServer {
 public:
  /// Listens on `port`; 0 picks a free one.
  explicit FakeServer(FakeAnswers answers, int port = 0);
  ~FakeServer();

  int port() const { return port_; }
  std::string address() const { return "127.0.0.1:" + std::to_string(port_); }

 private:
  class Service;
  std::unique_ptr<Service> service_;
  std::unique_ptr<grpc::Server> server_;
  int port_ = 0;
};

v1::Event state_event(int64_t seq, v1::Job::State state);
v1::Event progress_event(int64_t seq, double fraction);

}  // namespace dotresize
