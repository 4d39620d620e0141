#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "server/guarded_server.h"
#include "server/heartbeats.h"
#include "server/job_store.h"
#include "server/jobs_service.h"
#include "server/launcher.h"
#include "server/options.h"
#include "server/scheduler.h"
#include "server/state_dir.h"
#include "server/watchdog.h"
#include "server/workers_service.h"

namespace dotresize {

/// The coordinator: listens from the constructor to the destructor. Running jobs outlive it.
class Server {
 public:
  /// Throws std::runtime_error if the address is not available, ProgramMissing if jobs could not be
  /// run, and what StateDir and JobStore throw.
  explicit Server(const ServerOptions& options);
  /// Ends streams, answers the calls in progress, stops scheduling.
  ~Server();

  /// HOST:PORT with the actual port.
  const std::string& endpoint() const { return endpoint_; }

 private:
  void listen(const ServerOptions& options);
  /// Where jobs on this machine call their server.
  std::filesystem::path socket() const;
  /// Why it cannot serve at the moment; empty if it can.
  std::string fault();

  int descriptors_;  ///< that this process may have
  StateDir state_;
  JobStore store_;
  Trash trash_;
  PathPolicy paths_;
  Access access_;
  AuditLog audit_;
  Heartbeats heartbeats_;
  StreamPump streams_;
  JobsService jobs_;
  WorkersService workers_;
  std::string endpoint_;
  std::unique_ptr<GuardedServer> clients_server_;
  std::unique_ptr<GuardedServer> workers_server_;
  std::unique_ptr<Launchers> launchers_;
  std::unique_ptr<Scheduler> scheduler_;
  std::unique_ptr<Watchdog> watchdog_;
};

}  // namespace dotresize
