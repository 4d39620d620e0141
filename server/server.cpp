#include "server/server.h"

#include <google/protobuf/util/time_util.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <future>
#include <system_error>
#include <utility>

#include "base/errors.h"
#include "base/process/environment.h"
#include "base/process/program.h"
#include "server/access/endpoint.h"
#include "server/launch/launcher.h"
#include "server/store/files.h"

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
// Limits of file transfers, per caller and in total: each keeps a file open, and may hold a thread.
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
  if (is_loopback(endpoint.host) || (identified && !options.access.tls.empty())) return;
  const std::string fault =
      endpoint.host + " is not a loopback address, and " +
      (identified ? "tokens would be sent without TLS" : "whoever reaches it could " + port.danger);
  if (!options.access.insecure) {
    throw InputError(port.option, fault + ". Set --tls, and " + port.remedy + "; or --insecure");
  }
  spdlog::warn("{}", fault);
}

Machine machine_of(const ServerOptions& options) {
  Machine machine;
  machine.gpus = find_gpus();
  machine.memory_declared = options.limits.memory > 0;
  machine.launchers.clear();
  for (const LauncherChoice& choice : options.launch.launchers) {
    machine.launchers.push_back(choice.name);
  }
  machine.capacity = {options.limits.max_ranks, std::ssize(machine.gpus),
                      machine.memory_declared ? options.limits.memory : usable_memory_bytes()};
  return machine;
}

/// Checks the options that let ranks on other machines call the server. `tls`: null without TLS.
/// Throws InputError.
void check_remote_launchers(const ServerOptions& options, const TlsContent* tls) {
  for (const LauncherChoice& launcher : options.launch.launchers) {
    if (!launcher.program.empty() && ::access(launcher.program.c_str(), X_OK) != 0) {
      throw InputError("--launcher", launcher.name + ": " + launcher.program.string() +
                                         " is not a program that this user may execute");
    }
    if (launcher.name == kLocalLauncher || !options.launch.workers.empty()) continue;
    throw InputError("--launcher", launcher.name +
                                       " needs --workers HOST:PORT: its ranks may be on other "
                                       "machines, from which no Unix socket leads here");
  }
  if (options.launch.workers.empty()) return;
  if (split_endpoint(options.launch.workers).port == 0) {
    throw InputError("--workers", "needs a port: jobs call it after a restart of the server too");
  }
  if (tls != nullptr && tls->ca.empty()) {
    throw InputError("--tls", "--workers needs " + (options.access.tls / "ca.crt").string() +
                                  ": without it ranks do not know the server");
  }
}

LauncherContext launcher_context(const ServerOptions& options, const StateDir& state,
                                 JobStore& store, const Heartbeats& heartbeats,
                                 const RemotePolicy& remote, const std::string& ca,
                                 const std::string& coordinator) {
  std::vector<std::string> roots;
  for (const auto& root : options.access.allow_roots)
    roots.push_back(std::filesystem::canonical(root).string());
  if (!roots.empty() && remote.allows_any()) {
    roots.push_back(remote.cache().directory.string());
  }
  // Address at which ranks on other machines reach the server; empty without --workers.
  std::string address;
  if (!options.launch.workers.empty()) {
    const Endpoint endpoint = split_endpoint(options.launch.workers);
    const bool any = endpoint.host == "0.0.0.0" || endpoint.host == "[::]";
    address = (any ? host_name() : endpoint.host) + ":" + std::to_string(endpoint.port);
  }
  return {state, store, heartbeats, options.job_umask, coordinator, {address, ca, roots}};
}

Verdict all_needed(const std::vector<HealthCheck>& checks) {
  for (const HealthCheck& check : checks) {
    if (check.needed && !check.verdict) {
      return Verdict::with_fault("the " + check.part + ": " + check.verdict.fault());
    }
  }
  return {};
}

}  // namespace

Server::Storage::Storage(const ServerOptions& options)
    : state(options.state_dir),
      store(state.database),
      trash(state.trash),
      drain(state.root / kDrainedFile) {}

Server::Callers::Callers(const ServerOptions& options, const StateDir& state)
    : paths(options.access.allow_roots, state.root,
            RemotePolicy(options.access.allow_remote, state.root)),
      access(options.access.tokens),
      certificates(options.access.tls),
      audit(state.root / "audit.jsonl"),
      gate(access, audit, options.limits.max_rate),
      webhooks(options.webhooks) {}

Server::Server(const ServerOptions& options)
    : descriptors_(raise_descriptor_limit()),
      storage_(options),
      machine_(machine_of(options)),
      callers_(options, storage_.state),
      streams_{{storage_.store.changes(), {}},
               {storage_.store.changes(),
                {.of_one = kTransfersOfOne, .total = kTransfers, .threads = kTransfers}}},
      jobs_({storage_.store, storage_.state, storage_.trash, streams_.changes, callers_.paths,
             callers_.gate, machine_, models_, storage_.drain, view_, callers_.webhooks,
             streams_.transfers, options.access.allow_model_fetch}),
      workers_(storage_.store, heartbeats_) {
  const std::shared_ptr<const TlsContent> tls = callers_.certificates.current();
  check_remote_launchers(options, tls.get());
  background_.launchers = std::make_unique<Launchers>(
      launcher_context(options, storage_.state, storage_.store, heartbeats_,
                       callers_.paths.remote(), tls ? tls->ca : "",
                       "unix:" + storage_.state.socket.string()),
      options.launch.launchers);
  background_.launchers->require_ready();
  listen(options);
  background_.scheduler = std::make_unique<Scheduler>(
      SchedulerContext{storage_.store, storage_.state, *background_.launchers, heartbeats_,
                       storage_.trash, callers_.paths, callers_.access, machine_, storage_.drain,
                       view_},
      SchedulerLimits{options.limits.max_attempts, options.limits.heartbeat_timeout,
                      options.limits.retry_delay});
  if (callers_.paths.remote().allows_any()) {
    background_.stager = std::make_unique<Stager>(storage_.store, callers_.paths, callers_.access,
                                                  machine_, models_, storage_.trash);
  }
  background_.notifier = std::make_unique<Notifier>(storage_.store, callers_.webhooks,
                                                    callers_.access, options.webhooks.secret);
  background_.watchdog = std::make_unique<Watchdog>(
      "unix:" + storage_.state.socket.string(), [this] { return all_needed(health()); },
      [this](bool serving) {
        for (GuardedServer* server : grpc_servers()) server->set_serving(serving);
      });
  if (!options.http.empty()) listen_for_http(options);
  write_private_file(storage_.state.endpoint, ports_.endpoint + "\n");
  const std::map<v1::Job::State, int64_t> jobs = storage_.store.counts();
  const auto count = [&](v1::Job::State state) {
    return jobs.contains(state) ? jobs.at(state) : 0;
  };
  spdlog::info(
      "dotresize-server {}: state {}, at most {} ranks at once; {} queued, {} running jobs",
      kVersion, storage_.state.root.string(), options.limits.max_ranks, count(v1::Job::QUEUED),
      count(v1::Job::STARTING) + count(v1::Job::RUNNING));
}

Server::~Server() {
  callers_.gate.resources().stop();
  web_.http.reset();
  background_.watchdog.reset();
  background_.stager.reset();
  background_.notifier.reset();
  streams_.changes.stop();
  streams_.transfers.stop();
  std::vector<std::future<void>> ends;
  for (GuardedServer* server : grpc_servers()) {
    ends.push_back(std::async(std::launch::async, [server] { server->shutdown(kShutdownGrace); }));
  }
}

void Server::reload() {
  const auto read_again = [](const char* what, auto& part) {
    try {
      part.reload();
      spdlog::info("SIGHUP: reloaded the {}", what);
    } catch (const std::exception& error) {
      spdlog::error("SIGHUP: the {} stay unchanged: {}", what, error.what());
    }
  };
  read_again("tokens", callers_.access);
  const auto client_ca = [&] {
    const std::shared_ptr<const TlsContent> tls = callers_.certificates.current();
    return tls ? tls->client_ca : "";
  };
  const std::string before = client_ca();
  read_again("certificates", callers_.certificates);
  if (client_ca() == before) return;
  // A client that the new authority does not know must not keep the connection that the old one
  // gave.
  spdlog::info("SIGHUP: client-ca.crt has changed: closed {} connections",
               ports_.clients->cut_connections());
}

std::vector<GuardedServer*> Server::grpc_servers() const {
  std::vector<GuardedServer*> servers = {ports_.clients.get(), ports_.workers.get()};
  if (ports_.remote_workers) servers.push_back(ports_.remote_workers.get());
  return servers;
}

bool Server::are_clients_certified() const {
  const std::shared_ptr<const TlsContent> tls = callers_.certificates.current();
  return tls && !tls->client_ca.empty();
}

void Server::listen(const ServerOptions& options) {
  const Endpoint endpoint = split_endpoint(options.listen);
  require_protection(
      {"--listen", endpoint, are_clients_certified() || !options.access.tokens.empty(),
       "read and write files as this user", "a client-ca.crt in it or --tokens"},
      options);
  if (callers_.certificates.current()) {
    spdlog::info("--tls: clients need {} (client-ca.crt)",
                 are_clients_certified() ? "certificates" : "no certificates");
  }
  Listeners listeners;
  // The port of the last run is taken again if any will do: running jobs and clients know it.
  constexpr size_t kMaxEndpointBytes = 300;
  std::string last = read_file_start(storage_.state.endpoint, kMaxEndpointBytes).value_or("");
  const bool whole = last.ends_with('\n');
  if (whole) last.pop_back();
  if (whole && endpoint.port == 0 && endpoint_fault(last).empty() &&
      last.starts_with(endpoint.host + ":")) {
    try {
      listeners = listen_on_tcp(endpoint.host, split_endpoint(last).port);
    } catch (const std::system_error&) {
      spdlog::info("{}, the address of the last run, is taken", last);
    }
  }
  if (listeners.sockets.empty()) listeners = listen_on_tcp(endpoint.host, endpoint.port);
  ports_.endpoint = endpoint.host + ":" + std::to_string(listeners.port);
  // Includes the Workers service: jobs that an earlier version started call this address.
  ports_.clients = std::make_unique<GuardedServer>(
      std::move(listeners),
      GuardedServerOptions{
          descriptors_ - kReservedDescriptors,
          kClientThreads,
          {&jobs_, &workers_},
          callers_.certificates.credentials(/*of_clients=*/true),
          [this](const std::string& method, int code, std::optional<double> seconds) {
            monitoring_.metrics.count_call(method, code, seconds);
          },
          &callers_.gate.resources()});
  ports_.workers = std::make_unique<GuardedServer>(
      listen_on_unix(storage_.state.socket),
      GuardedServerOptions{descriptors_ - kReservedFromWorkers, kWorkerThreads, {&workers_}});
  if (options.launch.workers.empty()) return;
  const Endpoint remote = split_endpoint(options.launch.workers);
  // Callers are identified: each rank carries the token of its attempt.
  require_protection({"--workers", remote, /*identified=*/true, "", "a ca.crt in it"}, options);
  ports_.remote_workers = std::make_unique<GuardedServer>(
      listen_on_tcp(remote.host, remote.port),
      GuardedServerOptions{descriptors_ - kReservedFromWorkers,
                           kWorkerThreads,
                           {&workers_},
                           callers_.certificates.credentials(/*of_clients=*/false)});
}

void Server::listen_for_http(const ServerOptions& options) {
  const Endpoint endpoint = split_endpoint(options.http);
  require_protection({"--http", endpoint, !options.access.tokens.empty(),
                      "see and cancel what runs here", "--tokens"},
                     options);
  if (are_clients_certified() && options.access.tokens.empty()) {
    spdlog::info("no web pages: with client-ca.crt they need --tokens");
  } else {
    web_.pages = std::make_unique<WebPages>(
        WebContext{jobs_, callers_.gate, callers_.access, storage_.store, storage_.state,
                   heartbeats_, [this] { return health(); }},
        std::vector{host_name(), endpoint.host}, !options.access.tls.empty());
  }
  web_.http = std::make_unique<HttpServer>(
      endpoint, callers_.certificates, callers_.gate,
      HttpContent{[this] { return health(); },
                  [this] { return monitoring_.metrics.text(figures()); },
                  [this](httplib::Server& server) {
                    if (web_.pages) web_.pages->add_to(server);
                  }});
}

std::vector<HealthCheck> Server::health() {
  Health& cached = monitoring_.health;
  const Lock lock(cached.mutex);
  if (cached.checks.empty() || std::chrono::steady_clock::now() - cached.time > kHealthAge) {
    const std::string held = view_.state()->held;
    const bool stuck = background_.scheduler->time_since_round() > kLongestRound;
    cached.checks = {
        {"job table", storage_.store.check()},
        {"disk", storage_.state.check_space()},
        {"scheduler",
         stuck ? Verdict::with_fault("has not looked at the jobs for a long time") : Verdict()},
        {"connections", ports_.clients->check_connections()},
        {"queue",
         held.empty()
             ? Verdict()
             : Verdict::with_fault("held, because this machine cannot start jobs: " + held),
         /*needed=*/false}};
    cached.time = std::chrono::steady_clock::now();
  }
  return cached.checks;
}

double Server::queue_head_age_s() {
  using google::protobuf::util::TimeUtil;
  const auto since = storage_.store.head_queued_since();
  const std::string queued = since ? TimeUtil::ToString(*since) : "";
  Head& head = monitoring_.head;
  const Lock lock(head.mutex);
  if (queued != head.queued) head.clock.forget(std::exchange(head.queued, queued));
  if (!since) return 0.0;
  const std::chrono::milliseconds by_wall(
      TimeUtil::DurationToMilliseconds(TimeUtil::GetCurrentTime() - *since));
  return std::chrono::duration<double>(head.clock.passed(queued, by_wall)).count();
}

ServerFigures Server::figures() {
  ServerFigures figures;
  figures.jobs = storage_.store.counts();
  figures.totals = storage_.store.totals();
  figures.queue_head_age_s = queue_head_age_s();
  figures.longest_silence_s = std::chrono::duration<double>(heartbeats_.longest_silence()).count();
  figures.capacity = machine_.capacity;
  const std::shared_ptr<const QueueState> queue = view_.state();
  figures.used = queue->used;
  figures.launched = queue->launched;
  figures.without_launcher = queue->without_launcher;
  for (const std::string& launcher : machine_.launchers) figures.launched[launcher];
  figures.drained = storage_.drain.is_on();
  figures.streams = streams_.changes.size() + streams_.transfers.size();
  figures.serving = static_cast<bool>(all_needed(health()));
  figures.queue_held = background_.scheduler->is_held();
  std::error_code error;
  const auto space = std::filesystem::space(storage_.state.root, error);
  figures.state_free_bytes = error ? 0 : static_cast<int64_t>(space.available);
  for (const char* suffix : {"", "-wal"}) {
    const auto size = std::filesystem::file_size(storage_.state.database.string() + suffix, error);
    if (!error) figures.table_bytes += static_cast<int64_t>(size);
  }
  return figures;
}

}  // namespace dotresize
