#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "base/process/mutex.h"
#include "server/access/guarded_server.h"
#include "server/admission/known_models.h"
#include "server/api/jobs_service.h"
#include "server/api/workers_service.h"
#include "server/http/http_server.h"
#include "server/http/metrics.h"
#include "server/http/notifier.h"
#include "server/launch/heartbeats.h"
#include "server/launch/launcher.h"
#include "server/options.h"
#include "server/schedule/queue_view.h"
#include "server/schedule/scheduler.h"
#include "server/schedule/watchdog.h"
#include "server/store/clocks.h"
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
  const std::string& endpoint() const { return ports_.endpoint; }
  /// URL of pages, health and metrics, "http://HOST:PORT"; empty without --http.
  std::string http_url() const { return web_.http ? web_.http->url() : ""; }

 private:
  void listen(const ServerOptions& options);
  std::vector<GuardedServer*> grpc_servers() const;
  /// True if clients must have a certificate.
  bool are_clients_certified() const;
  void listen_for_http(const ServerOptions& options);
  /// Returns the health checks. Caches them for at most one second, so that frequent requests stay
  /// cheap.
  std::vector<HealthCheck> health();
  ServerFigures figures();
  /// Time since the job at the head of the queue was queued; 0 if there is none.
  double queue_head_age_s();

  /// Lasting state: files and the job table.
  struct Storage {
    explicit Storage(const ServerOptions& options);

    StateDir state;
    JobStore store;
    Trash trash;
    Drain drain;
  };
  /// Checks of callers, and of what their calls may name.
  struct Callers {
    Callers(const ServerOptions& options, const StateDir& state);

    PathPolicy paths;
    Access access;
    Certificates certificates;
    AuditLog audit;
    CallGate gate;
    WebhookPolicy webhooks;
  };
  /// Streamed answers: job changes, and files.
  struct Streams {
    StreamPump changes;
    StreamPump transfers;
  };
  /// Cached health checks.
  struct Health {
    Mutex mutex;
    std::vector<HealthCheck> checks DOTRESIZE_GUARDED_BY(mutex);
    std::chrono::steady_clock::time_point time DOTRESIZE_GUARDED_BY(mutex);
  };
  /// Age of the queue's head, which does not change when the wall clock is set.
  struct Head {
    Mutex mutex;
    RunClock clock DOTRESIZE_GUARDED_BY(mutex);
    std::string queued DOTRESIZE_GUARDED_BY(
        mutex);  ///< time when the head was queued, by which the clock knows it
  };
  /// State behind the health checks and metrics of the HTTP port.
  struct Monitoring {
    Metrics metrics;
    Health health;
    Head head;
  };
  struct Ports {
    std::string endpoint;  ///< HOST:PORT of clients, with the actual port
    std::unique_ptr<GuardedServer> clients;
    std::unique_ptr<GuardedServer> workers;
    std::unique_ptr<GuardedServer> remote_workers;  ///< null without --workers
  };
  /// Threads that work on the job table, and what they start.
  struct Background {
    std::unique_ptr<Launchers> launchers;
    std::unique_ptr<Scheduler> scheduler;
    std::unique_ptr<Notifier> notifier;
    std::unique_ptr<Stager> stager;  ///< null: no remote URLs are allowed
    std::unique_ptr<Watchdog> watchdog;
  };

  /// Port of browsers and monitoring; null without --http.
  struct Web {
    std::unique_ptr<WebPages> pages;  ///< null too if browsers could not authenticate
    std::unique_ptr<HttpServer> http;
  };

  int descriptors_;  ///< limit of open files of this process
  Storage storage_;
  const Machine machine_;
  KnownModels models_;
  QueueView view_;
  Callers callers_;
  Heartbeats heartbeats_;
  Monitoring monitoring_;
  Streams streams_;
  JobsService jobs_;
  WorkersService workers_;
  Ports ports_;
  Background background_;
  Web web_;  ///< last member: it uses all the others
};

}  // namespace dotresize
