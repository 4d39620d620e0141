#include "server/server.h"

#include <spdlog/spdlog.h>

#include <chrono>
#include <filesystem>
#include <system_error>
#include <utility>

#include "base/errors.h"
#include "base/program.h"
#include "server/credentials.h"
#include "server/endpoint.h"

namespace dotresize {
namespace {

// One for each call that is being answered, streams aside. Clients cannot take those of the jobs'
// own calls.
constexpr int kClientThreads = 512;
constexpr int kWorkerThreads = 32;
// Descriptors that connections of clients leave for everything else, and of these what those of
// jobs leave.
constexpr int kReservedDescriptors = 256;
constexpr int kReservedFromWorkers = 96;
constexpr std::chrono::seconds kShutdownGrace{3};
constexpr std::chrono::seconds kLongestRound{30};
constexpr uintmax_t kLeastSpace = uintmax_t{16} << 20;

/// Whoever may submit jobs can read and write files as this user.
void require_protection(const Endpoint& endpoint, const ServerOptions& options) {
  const bool identified = !options.tls.client_ca.empty() || !options.tokens.empty();
  if (is_loopback(endpoint.host) || (identified && !options.tls.certificate.empty())) return;
  const std::string fault =
      endpoint.host + " is not a loopback address, and " +
      (identified ? "tokens would be sent without TLS"
                  : "whoever reaches it could read and write files as this user");
  if (!options.insecure) {
    throw InputError("--listen", fault +
                                     ". Set --tls-cert and --tls-key, and --tls-client-ca or "
                                     "--tokens; or --insecure");
  }
  spdlog::warn("{}", fault);
}

/// A port that was used before, if it is free, else any.
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

}  // namespace

Server::Server(const ServerOptions& options)
    : descriptors_(raise_descriptor_limit()),
      state_(options.state_dir),
      store_(state_.database()),
      trash_(state_.trash()),
      paths_(options.allow_roots, state_.root()),
      access_(options.tokens),
      audit_(state_.root() / "audit.jsonl"),
      streams_(store_.changes()),
      jobs_(store_, state_, trash_, streams_, paths_, access_, audit_, {options.max_ranks}),
      workers_(store_, heartbeats_) {
  launchers_ = std::make_unique<Launchers>(
      LauncherContext{state_, options.job_umask, "unix:" + socket().string()});
  launchers_->require_ready();
  listen(options);
  scheduler_ =
      std::make_unique<Scheduler>(store_, *launchers_, heartbeats_, trash_, paths_,
                                  SchedulerLimits{options.max_ranks, options.max_attempts,
                                                  options.heartbeat_timeout, options.retry_delay});
  watchdog_ = std::make_unique<Watchdog>(
      "unix:" + socket().string(), [this] { return fault(); },
      [this](bool serving) {
        for (GuardedServer* server : {clients_server_.get(), workers_server_.get()}) {
          server->set_serving(serving);
        }
      });
  state_.write_endpoint(endpoint_);
  spdlog::info(
      "dotresize-server {}: state {}, at most {} ranks at once; {} queued, {} running jobs",
      kVersion, state_.root().string(), options.max_ranks, store_.queued(),
      store_.launched().size());
}

Server::~Server() {
  watchdog_.reset();
  streams_.stop();
  clients_server_->shutdown(kShutdownGrace);
  workers_server_->shutdown(kShutdownGrace);
}

std::filesystem::path Server::socket() const { return state_.root() / "workers.sock"; }

void Server::listen(const ServerOptions& options) {
  const Endpoint endpoint = split_endpoint(options.listen);
  require_protection(endpoint, options);
  Listeners listeners = listen_for_clients(endpoint, state_.last_endpoint());
  endpoint_ = endpoint.host + ":" + std::to_string(listeners.port);
  // Jobs of an earlier version call the clients' address.
  clients_server_ = std::make_unique<GuardedServer>(
      std::move(listeners), GuardedServerOptions{descriptors_ - kReservedDescriptors,
                                                 kClientThreads,
                                                 {&jobs_, &workers_},
                                                 server_credentials(options.tls)});
  workers_server_ = std::make_unique<GuardedServer>(
      listen_on_unix(socket()),
      GuardedServerOptions{descriptors_ - kReservedFromWorkers, kWorkerThreads, {&workers_}});
}

std::string Server::fault() {
  std::error_code error;
  const std::filesystem::space_info space = std::filesystem::space(state_.root(), error);
  if (error) return state_.root().string() + ": " + error.message();
  if (space.available < kLeastSpace) return "the disk of " + state_.root().string() + " is full";
  if (scheduler_->time_since_round() > kLongestRound) return "the scheduler is stuck";
  return store_.fault();
}

}  // namespace dotresize
