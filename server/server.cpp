#include "server/server.h"

#include <google/protobuf/util/time_util.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <system_error>
#include <utility>

#include "base/errors.h"
#include "base/files/input_file.h"
#include "base/process/environment.h"
#include "base/process/program.h"
#include "server/access/endpoint.h"
#include "server/launch/kubernetes/kubernetes_launcher.h"
#include "server/launch/launchers.h"

namespace dotresize {
namespace {

// Threads for calls in progress, streams aside. Calls of jobs have a pool of their own, which
// clients cannot use up.
constexpr int kClientThreads = 512;
constexpr int kWorkerThreads = 32;
// Descriptors that client connections leave free for everything else. Connections of jobs may use
// some of them, down to kReservedFromWorkers.
constexpr int kReservedDescriptors = 256;
constexpr int kReservedFromWorkers = 96;
// Limits of file transfers, per caller and in total: each keeps a file open.
constexpr int kTransfersOfOne = 8;
constexpr size_t kTransfers = 64;
constexpr std::chrono::seconds kShutdownGrace{3};
constexpr std::chrono::seconds kLongestRound{30};
constexpr std::chrono::seconds kHealthAge{1};

/// Port of the server, and how it is protected.
struct Exposure {
  std::string option;
  Endpoint endpoint;
  bool identified = false;  ///< callers must authenticate
  std::string danger;       ///< what unauthenticated callers could do
  std::string remedy;
};

void require_protection(const Exposure& port, const ServerOptions& options) {
  const bool identified = port.identified;
  const Endpoint& endpoint = port.endpoint;
  if (is_loopback(endpoint.host) || (identified && !options.access.tls.certificate.empty())) return;
  const std::string fault =
      endpoint.host + " is not a loopback address, and " +
      (identified ? "tokens would be sent without TLS" : "whoever reaches it could " + port.danger);
  if (!options.access.insecure) {
    throw InputError(port.option, fault + ". Set --tls-cert and --tls-key, and " + port.remedy +
                                      "; or --insecure");
  }
  spdlog::warn("{}", fault);
}

/// Listens on `endpoint`. If its port is 0, takes the port of the last run if that is free.
Listeners listen_for_clients(const Endpoint& endpoint, const std::optional<std::string>& last) {
  if (endpoint.port == 0 && last && last->starts_with(endpoint.host + ":")) {
    try {
      return listen_on_tcp(endpoint.host, split_endpoint(*last).port);
    } catch (const std::system_error&) {
      spdlog::info("{}, the address of the last run, is taken", *last);
    }
  }
  return listen_on_tcp(endpoint.host, endpoint.port);
}

Machine machine_of(const ServerOptions& options) {
  Machine machine;
  machine.gpus = find_gpus(options.limits.gpus);
  machine.memory_declared = options.limits.memory > 0;
  machine.launchers = options.launch.launchers;
  machine.capacity = {options.limits.max_ranks, std::ssize(machine.gpus),
                      machine.memory_declared ? options.limits.memory : usable_memory_bytes()};
  return machine;
}

/// Returns the address at which ranks on other machines reach the server; empty without --workers.
std::string address_for_ranks(const ServerOptions& options) {
  if (options.launch.workers.empty()) return "";
  const Endpoint endpoint = split_endpoint(options.launch.workers);
  const bool any = endpoint.host == "0.0.0.0" || endpoint.host == "[::]";
  return (any ? host_name() : endpoint.host) + ":" + std::to_string(endpoint.port);
}

/// Checks the options that let ranks on other machines call the server. Throws InputError.
void check_remote_launchers(const ServerOptions& options) {
  for (const v1::Resources::Launcher launcher : options.launch.launchers) {
    if (launcher == v1::Resources::local || !options.launch.workers.empty()) continue;
    throw InputError("--launcher", v1::Resources::Launcher_Name(launcher) +
                                       " needs --workers HOST:PORT: its ranks may be on other "
                                       "machines, from which no Unix socket leads here");
  }
  if (options.launch.workers.empty() && !options.launch.workers_ca.empty()) {
    throw InputError("--workers-ca", "needs --workers");
  }
  if (options.launch.workers.empty()) return;
  if (split_endpoint(options.launch.workers).port == 0) {
    throw InputError("--workers", "needs a port: jobs call it after a restart of the server too");
  }
  if (options.access.tls.certificate.empty() != options.launch.workers_ca.empty()) {
    throw InputError("--workers-ca",
                     "needs --tls-cert, and --workers with --tls-cert needs it: "
                     "without it ranks do not know the server");
  }
}

LauncherContext launcher_context(const ServerOptions& options, const StateDir& state,
                                 JobStore& store, const Heartbeats& heartbeats,
                                 const std::string& coordinator) {
  constexpr uint64_t kMaxAuthorityBytes = 1 << 20;
  const std::string ca = options.launch.workers_ca.empty()
                             ? ""
                             : read_whole_file(options.launch.workers_ca, kMaxAuthorityBytes);
  std::vector<std::string> roots;
  for (const auto& root : options.access.allow_roots)
    roots.push_back(std::filesystem::canonical(root).string());
  const RemotePolicy remote(options.remote, state.root());
  if (!roots.empty() && remote.allows_any()) {
    roots.push_back(remote.cache().directory.string());
  }
  return {state,
          store,
          heartbeats,
          options.job_umask,
          coordinator,
          {address_for_ranks(options), ca, roots},
          options.launch.slurm,
          options.launch.kubernetes,
          options.launch.external_timeout};
}

std::string first_fault(const std::vector<HealthCheck>& checks) {
  for (const HealthCheck& check : checks) {
    if (check.needed && !check.fault.empty()) return "the " + check.part + ": " + check.fault;
  }
  return "";
}

}  // namespace

Server::Server(const ServerOptions& options)
    : descriptors_(raise_descriptor_limit()),
      state_(options.state_dir),
      store_(state_.database(), options.limits.max_queued),
      trash_(state_.trash()),
      paths_(options.access.allow_roots, state_.root(),
             RemotePolicy(options.remote, state_.root())),
      machine_(machine_of(options)),
      drain_(state_.root() / kDrainedFile),
      access_(options.access.tokens),
      certificates_(options.access.tls),
      audit_(state_.root() / "audit.jsonl"),
      gate_(access_, audit_, options.limits.max_rate),
      webhooks_(options.webhooks),
      streams_(store_.changes(), options.limits.max_streams),
      transfers_(store_.changes(), kTransfersOfOne, kTransfers),
      jobs_({store_, state_, trash_, streams_, paths_, gate_, machine_, drain_, view_, webhooks_,
             transfers_, options.access.allow_model_fetch}),
      workers_(store_, heartbeats_) {
  check_remote_launchers(options);
  launchers_ = std::make_unique<Launchers>(
      launcher_context(options, state_, store_, heartbeats_, "unix:" + socket().string()),
      options.launch.launchers);
  if (machine_.offers(v1::Resources::kubernetes))
    check_kubernetes(options.launch.kubernetes, state_.root());
  launchers_->require_ready();
  listen(options);
  scheduler_ = std::make_unique<Scheduler>(
      SchedulerContext{store_, state_, *launchers_, heartbeats_, trash_, paths_, machine_, drain_,
                       view_},
      SchedulerLimits{options.limits.max_attempts, options.limits.heartbeat_timeout,
                      options.limits.retry_delay, options.limits.max_remote_jobs});
  if (paths_.remote().allows_any()) {
    stager_ = std::make_unique<Stager>(store_, paths_, machine_, trash_);
  }
  notifier_ = std::make_unique<Notifier>(store_, webhooks_, options.webhooks.secret);
  watchdog_ = std::make_unique<Watchdog>(
      "unix:" + socket().string(), [this] { return first_fault(health()); },
      [this](bool serving) {
        for (GuardedServer* server : grpc_servers()) server->set_serving(serving);
      });
  if (!options.http.empty()) listen_for_http(options);
  state_.write_endpoint(endpoint_);
  const std::map<v1::Job::State, int64_t> jobs = store_.counts();
  const auto count = [&](v1::Job::State state) {
    return jobs.contains(state) ? jobs.at(state) : 0;
  };
  spdlog::info(
      "dotresize-server {}: state {}, at most {} ranks at once; {} queued, {} running jobs",
      kVersion, state_.root().string(), options.limits.max_ranks, count(v1::Job::QUEUED),
      count(v1::Job::STARTING) + count(v1::Job::RUNNING));
}

Server::~Server() {
  http_.reset();
  watchdog_.reset();
  stager_.reset();
  notifier_.reset();
  streams_.stop();
  transfers_.stop();
  for (GuardedServer* server : grpc_servers()) server->shutdown(kShutdownGrace);
}

void Server::reload() {
  const auto read_again = [](const char* what, auto& part) {
    try {
      part.reload();
      spdlog::info("SIGHUP: the {} were read again", what);
    } catch (const std::exception& error) {
      spdlog::error("SIGHUP: the {} stay as they were: {}", what, error.what());
    }
  };
  read_again("tokens", access_);
  read_again("certificates", certificates_);
}

std::vector<GuardedServer*> Server::grpc_servers() const {
  std::vector<GuardedServer*> servers = {clients_server_.get(), workers_server_.get()};
  if (remote_workers_server_) servers.push_back(remote_workers_server_.get());
  return servers;
}

std::filesystem::path Server::socket() const { return state_.root() / "workers.sock"; }

void Server::listen(const ServerOptions& options) {
  const Endpoint endpoint = split_endpoint(options.listen);
  require_protection({"--listen", endpoint,
                      !options.access.tls.client_ca.empty() || !options.access.tokens.empty(),
                      "read and write files as this user", "--tls-client-ca or --tokens"},
                     options);
  Listeners listeners = listen_for_clients(endpoint, state_.last_endpoint());
  endpoint_ = endpoint.host + ":" + std::to_string(listeners.port);
  // Includes the Workers service: jobs that an earlier version started call this address.
  clients_server_ = std::make_unique<GuardedServer>(
      std::move(listeners), GuardedServerOptions{descriptors_ - kReservedDescriptors,
                                                 kClientThreads,
                                                 {&jobs_, &workers_},
                                                 certificates_.credentials(/*of_clients=*/true),
                                                 &metrics_});
  workers_server_ = std::make_unique<GuardedServer>(
      listen_on_unix(socket()),
      GuardedServerOptions{descriptors_ - kReservedFromWorkers, kWorkerThreads, {&workers_}});
  if (!options.launch.workers.empty()) listen_for_remote_ranks(options);
}

void Server::listen_for_remote_ranks(const ServerOptions& options) {
  const Endpoint endpoint = split_endpoint(options.launch.workers);
  // Callers are identified: each rank carries the token of its attempt.
  require_protection({"--workers", endpoint, /*identified=*/true, "", "--workers-ca"}, options);
  remote_workers_server_ = std::make_unique<GuardedServer>(
      listen_on_tcp(endpoint.host, endpoint.port),
      GuardedServerOptions{descriptors_ - kReservedFromWorkers,
                           kWorkerThreads,
                           {&workers_},
                           certificates_.credentials(/*of_clients=*/false)});
}

void Server::listen_for_http(const ServerOptions& options) {
  const Endpoint endpoint = split_endpoint(options.http);
  require_protection({"--http", endpoint, !options.access.tokens.empty(),
                      "see and cancel what runs here", "--tokens"},
                     options);
  pages_ = make_pages(options);
  http_ = std::make_unique<HttpServer>(
      endpoint, certificates_, gate_,
      HttpContent{[this] { return health(); }, [this] { return metrics_.text(figures()); },
                  [this](httplib::Server& server) {
                    if (pages_) pages_->add_to(server);
                  }});
}

std::unique_ptr<WebPages> Server::make_pages(const ServerOptions& options) {
  if (!options.access.tls.client_ca.empty() && options.access.tokens.empty()) {
    spdlog::info("no web pages: with --tls-client-ca they need --tokens");
    return nullptr;
  }
  return std::make_unique<WebPages>(
      WebContext{jobs_, gate_, access_, store_, state_, heartbeats_, [this] { return health(); }},
      std::vector{host_name(), split_endpoint(options.http).host},
      !options.access.tls.certificate.empty());
}

std::vector<HealthCheck> Server::health() {
  const std::lock_guard lock(health_mutex_);
  if (health_.empty() || std::chrono::steady_clock::now() - health_time_ > kHealthAge) {
    health_ = check_health();
    health_time_ = std::chrono::steady_clock::now();
  }
  return health_;
}

std::vector<HealthCheck> Server::check_health() {
  const std::string held = view_.held();
  const bool stuck = scheduler_->time_since_round() > kLongestRound;
  return {{"job table", store_.fault()},
          {"disk", state_.space_fault()},
          {"scheduler", stuck ? "has not looked at the jobs for long" : ""},
          {"queue", held.empty() ? "" : "held, because this machine cannot start jobs: " + held,
           /*needed=*/false}};
}

ServerFigures Server::figures() {
  ServerFigures figures;
  figures.jobs = store_.counts();
  figures.totals = store_.totals();
  if (const auto since = store_.head_queued_since()) {
    const auto now = google::protobuf::util::TimeUtil::GetCurrentTime();
    figures.queue_head_age_s = std::max(0.0, unix_time(now) - unix_time(*since));
  }
  figures.longest_silence_s = std::chrono::duration<double>(heartbeats_.longest_silence()).count();
  figures.capacity = machine_.capacity;
  figures.used = view_.used();
  figures.launched = view_.launched();
  for (const v1::Resources::Launcher launcher : machine_.launchers) figures.launched[launcher];
  figures.drained = drain_.is_on();
  figures.streams = streams_.size() + transfers_.size();
  figures.serving = first_fault(health()).empty();
  figures.queue_held = scheduler_->is_held();
  std::error_code error;
  const auto space = std::filesystem::space(state_.root(), error);
  figures.state_free_bytes = error ? 0 : static_cast<int64_t>(space.available);
  for (const char* suffix : {"", "-wal"}) {
    const auto size = std::filesystem::file_size(state_.database().string() + suffix, error);
    if (!error) figures.table_bytes += static_cast<int64_t>(size);
  }
  return figures;
}

}  // namespace dotresize
