#include "server/server.h"

#include <grpcpp/grpcpp.h>
#include <grpcpp/health_check_service_interface.h>
#include <spdlog/spdlog.h>

#include <chrono>

namespace dotresize {
namespace {

// Threads: one for each call that is being answered. Streams may not take them all.
constexpr int kMaxStreams = 64;
constexpr int kMaxThreads = 160;
constexpr int kMaxRequestBytes = 1 << 20;
constexpr int kMaxStreamsPerConnection = 100;
constexpr int kPingAfterMs = 30'000;
constexpr int kPingTimeoutMs = 10'000;
constexpr std::chrono::seconds kShutdownGrace{3};

struct Endpoint {
  std::string host;
  int port = 0;
};

/// Of a checked HOST:PORT.
Endpoint split(const std::string& address) {
  const size_t colon = address.rfind(':');
  return {address.substr(0, colon), std::stoi(address.substr(colon + 1))};
}

bool is_loopback(const std::string& host) {
  return host == "localhost" || host == "[::1]" || host.starts_with("127.");
}

/// Where the ranks on this machine reach the server.
std::string local_address(const Endpoint& endpoint) {
  std::string host = endpoint.host;
  if (host == "0.0.0.0") host = "127.0.0.1";
  if (host == "[::]") host = "[::1]";
  return host + ":" + std::to_string(endpoint.port);
}

void set_limits(grpc::ServerBuilder& builder) {
  grpc::ResourceQuota quota("dotresize-server");
  quota.SetMaxThreads(kMaxThreads);
  builder.SetResourceQuota(quota);
  builder.SetMaxReceiveMessageSize(kMaxRequestBytes);
  builder.SetSyncServerOption(grpc::ServerBuilder::NUM_CQS, 1);
  builder.SetSyncServerOption(grpc::ServerBuilder::MAX_POLLERS, 4);
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, kMaxStreamsPerConnection);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, kPingAfterMs);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kPingTimeoutMs);
}

void declare_healthy(grpc::Server& server) {
  grpc::HealthCheckServiceInterface* health = server.GetHealthCheckService();
  for (const char* service : {v1::Jobs::service_full_name(), v1::Workers::service_full_name()}) {
    health->SetServingStatus(service, true);
  }
}

}  // namespace

Server::Server(const ServerOptions& options)
    : state_(options.state_dir),
      store_(state_.database()),
      trash_(state_.trash()),
      paths_(options.allow_roots, state_.root()),
      streams_(kMaxStreams),
      jobs_(store_, state_, trash_, streams_, paths_, {options.max_ranks}),
      workers_(store_, heartbeats_) {
  listen(options.listen);
  const Endpoint actual = split(endpoint_);
  if (!is_loopback(actual.host)) {
    spdlog::warn(
        "{} is not a loopback address and this server knows no authentication: whoever "
        "reaches it can read and write files as this user",
        endpoint_);
  }
  launchers_ = std::make_unique<Launchers>(LauncherContext{state_, local_address(actual)});
  launchers_->require_ready();
  scheduler_ =
      std::make_unique<Scheduler>(store_, *launchers_, heartbeats_, trash_, paths_,
                                  SchedulerLimits{options.max_ranks, options.max_attempts,
                                                  options.heartbeat_timeout, options.retry_delay});
  declare_healthy(*grpc_);
  state_.write_endpoint(endpoint_);
}

Server::~Server() {
  streams_.stop();
  grpc_->Shutdown(std::chrono::system_clock::now() + kShutdownGrace);
  grpc_->Wait();
}

void Server::listen(const std::string& address) {
  Endpoint endpoint = split(address);
  int port = 0;
  if (endpoint.port == 0) {
    // Jobs of the last run know its port.
    const std::optional<std::string> last = state_.last_endpoint();
    if (last && last->starts_with(endpoint.host + ":")) {
      grpc_ = try_listen(endpoint.host, split(*last).port, &port);
    }
  }
  if (!grpc_) grpc_ = try_listen(endpoint.host, endpoint.port, &port);
  if (!grpc_) throw std::runtime_error("cannot listen on " + address);
  endpoint_ = endpoint.host + ":" + std::to_string(port);
}

std::unique_ptr<grpc::Server> Server::try_listen(const std::string& host, int port,
                                                 int* actual_port) {
  grpc::ServerBuilder builder;
  set_limits(builder);
  builder.AddListeningPort(host + ":" + std::to_string(port), grpc::InsecureServerCredentials(),
                           actual_port);
  builder.RegisterService(&jobs_);
  builder.RegisterService(&workers_);
  std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  return *actual_port == 0 ? nullptr : std::move(server);
}

}  // namespace dotresize
