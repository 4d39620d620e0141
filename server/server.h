#pragma once

#include <grpcpp/server.h>

#include <memory>
#include <string>

#include "server/heartbeats.h"
#include "server/job_store.h"
#include "server/jobs_service.h"
#include "server/launcher.h"
#include "server/options.h"
#include "server/scheduler.h"
#include "server/state_dir.h"
#include "server/workers_service.h"

namespace dotresize {

/// The coordinator: listens from the constructor to the destructor. Running jobs outlive it.
class Server {
 public:
  /// Throws std::runtime_error if the address is not available, and what StateDir and JobStore
  /// throw.
  explicit Server(const ServerOptions& options);
  /// Ends streams, answers the calls in progress, stops scheduling.
  ~Server();

  /// HOST:PORT with the actual port.
  const std::string& endpoint() const { return endpoint_; }

 private:
  void listen(const std::string& address);
  std::unique_ptr<grpc::Server> try_listen(const std::string& host, int port, int* actual_port);

  StateDir state_;
  JobStore store_;
  Trash trash_;
  PathPolicy paths_;
  Heartbeats heartbeats_;
  StreamSlots streams_;
  JobsService jobs_;
  WorkersService workers_;
  std::string endpoint_;
  std::unique_ptr<grpc::Server> grpc_;
  std::unique_ptr<Launchers> launchers_;
  std::unique_ptr<Scheduler> scheduler_;
};

}  // namespace dotresize
