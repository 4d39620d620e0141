#pragma once

#include <chrono>
#include <filesystem>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "server/access/guarded_server.h"
#include "server/api/jobs_service.h"
#include "server/api/queue_view.h"
#include "server/api/workers_service.h"
#include "server/http/http_server.h"
#include "server/http/metrics.h"
#include "server/http/notifier.h"
#include "server/launch/launchers.h"
#include "server/options.h"
#include "server/schedule/heartbeats.h"
#include "server/schedule/scheduler.h"
#include "server/schedule/watchdog.h"
#include "server/store/drain.h"
#include "server/store/job_store.h"
#include "server/store/resources.h"
#include "server/store/state_dir.h"
#include "server/transfer/stager.h"
#include "server/web/web_pages.h"

namespace dotresize {

/// The coordinator: listens from the constructor to the destructor. Running jobs outlive it.
class Server {
 public:
  /// Throws std::runtime_error if the address is not available, ProgramMissing if jobs could not
  /// run, and whatever StateDir and JobStore throw.
  explicit Server(const ServerOptions& options);
  /// Ends streams, finishes the calls in progress, stops scheduling.
  ~Server();

  /// Reads the tokens and the certificates again. A faulty file is logged and changes nothing.
  void reload();

  /// HOST:PORT with the actual port.
  const std::string& endpoint() const { return endpoint_; }
  /// URL of pages, health and metrics, "http://HOST:PORT"; empty without --http.
  std::string http_url() const { return http_ ? http_->url() : ""; }

 private:
  void listen(const ServerOptions& options);
  void listen_for_remote_ranks(const ServerOptions& options);
  std::vector<GuardedServer*> grpc_servers() const;
  /// Unix socket through which jobs on this machine call the server.
  std::filesystem::path socket() const;
  void listen_for_http(const ServerOptions& options);
  /// Returns null if browsers could not authenticate: clients need certificates, but there are no
  /// tokens.
  std::unique_ptr<WebPages> make_pages(const ServerOptions& options);
  /// Returns the health checks. Caches them for at most one second, so that frequent requests stay
  /// cheap.
  std::vector<HealthCheck> health();
  std::vector<HealthCheck> check_health();
  ServerFigures figures();

  int descriptors_;  ///< limit of open files of this process
  StateDir state_;
  JobStore store_;
  Trash trash_;
  PathPolicy paths_;
  const Machine machine_;
  Drain drain_;
  QueueView view_;
  Access access_;
  Certificates certificates_;
  AuditLog audit_;
  CallGate gate_;
  Heartbeats heartbeats_;
  Metrics metrics_;
  std::mutex health_mutex_;
  std::vector<HealthCheck> health_;
  std::chrono::steady_clock::time_point health_time_;  ///< time of the last check
  WebhookPolicy webhooks_;
  StreamPump streams_;
  StreamPump transfers_;
  JobsService jobs_;
  WorkersService workers_;
  std::string endpoint_;
  std::unique_ptr<GuardedServer> clients_server_;
  std::unique_ptr<GuardedServer> workers_server_;
  std::unique_ptr<GuardedServer> remote_workers_server_;  ///< null without --workers
  std::unique_ptr<Launchers> launchers_;
  std::unique_ptr<Scheduler> scheduler_;
  std::unique_ptr<Notifier> notifier_;
  std::unique_ptr<Stager> stager_;  ///< null: no remote URLs are allowed
  std::unique_ptr<Watchdog> watchdog_;
  std::unique_ptr<WebPages> pages_;   ///< null without --http; see make_pages()
  std::unique_ptr<HttpServer> http_;  ///< last member: it uses all the others
};

}  // namespace dotresize
