#pragma once

#include <grpcpp/grpcpp.h>
#include <grpcpp/server_builder.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/errors.h"
#include "base/files/unique_fd.h"
#include "server/access/connection_table.h"
#include "server/access/listeners.h"

namespace dotresize {

/// Raises this process's limit of open files, to at most 4096, and returns it. Throws InputError if
/// the limit stays below 512.
int raise_descriptor_limit();

class RequestResources;

/// Told of a finished call: its method, gRPC code and, if it is unary, duration in seconds.
using CallCounter =
    std::function<void(const std::string& method, int code, std::optional<double> seconds)>;

struct GuardedServerOptions {
  int max_descriptors = 0;  ///< limit of open files; connections above it are closed at once
  int max_threads = 0;      ///< threads for blocking calls
  std::vector<grpc::Service*> services;
  std::shared_ptr<grpc::ServerCredentials> credentials = grpc::InsecureServerCredentials();
  CallCounter count_call = {};            ///< counts calls of the Jobs service; may be empty
  RequestResources* resources = nullptr;  ///< told of the end of each call; may be null
};

/// gRPC server that accepts its connections itself. gRPC 1.51 stops accepting forever once the
/// process has run out of descriptors (CVE-2023-4785).
class GuardedServer {
 public:
  /// Throws std::runtime_error if gRPC does not start.
  GuardedServer(Listeners listeners, const GuardedServerOptions& options);
  /// Calls shutdown() without grace.
  ~GuardedServer();
  GuardedServer(const GuardedServer&) = delete;
  GuardedServer& operator=(const GuardedServer&) = delete;

  /// Sets the grpc.health.v1 status of the whole server and of its services.
  void set_serving(bool serving);
  /// Stops accepting, waits up to `grace` for calls in progress, then cancels them. Cuts the
  /// connections that are left one second later.
  void shutdown(std::chrono::milliseconds grace);
  /// A fault if new connections were refused in the last seconds.
  Verdict check_connections() const;
  /// Closes all connections; their clients may connect again. Returns how many there were.
  int cut_connections() const;

 private:
  using Clock = std::chrono::steady_clock;

  void accept_loop();
  void accept(int listener);

  Listeners listeners_;
  const int max_descriptors_;
  ConnectionTable connections_;
  std::atomic<Clock::time_point> last_refusal_{Clock::time_point() - std::chrono::hours(1)};
  Clock::time_point next_warning_;  ///< used by the thread that accepts
  UniqueFd stop_;                   ///< eventfd that ends accept_loop()
  UniqueFd spare_;  ///< closed to accept and drop a connection when no descriptor is free
  std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> acceptor_;
  std::unique_ptr<grpc::Server> server_;
  std::thread thread_;
};

}  // namespace dotresize
