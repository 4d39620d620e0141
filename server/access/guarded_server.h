#pragma once

#include <grpcpp/grpcpp.h>
#include <grpcpp/server_builder.h>

#include <chrono>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/files/unique_fd.h"

namespace dotresize {

/// Listening sockets.
struct Listeners {
  std::vector<UniqueFd> sockets;
  int port = 0;  ///< TCP port; 0 for a Unix socket
};

/// Listens on all addresses of the host ("127.0.0.1", "localhost", "[::1]"). Port 0: any free one.
/// Throws std::system_error, or std::runtime_error for a host without an address.
Listeners listen_on_tcp(const std::string& host, int port);

/// Listens on a Unix socket; replaces an existing file of this name. Throws std::system_error, or
/// std::runtime_error if the path is too long for a socket address.
Listeners listen_on_unix(const std::filesystem::path& path);

/// Raises this process's limit of open files, to at most 4096, and returns it. Throws InputError if
/// the limit stays below 512.
int raise_descriptor_limit();

class Metrics;

struct GuardedServerOptions {
  int max_descriptors = 0;  ///< limit of open files; connections above it are closed at once
  int max_threads = 0;      ///< threads for blocking calls
  std::vector<grpc::Service*> services;
  std::shared_ptr<grpc::ServerCredentials> credentials = grpc::InsecureServerCredentials();
  Metrics* metrics = nullptr;  ///< counts calls of the Jobs service; may be null
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
  /// Closes all connections; their clients may connect again. Returns how many there were.
  int cut_connections() const;

 private:
  void accept_loop();

  Listeners listeners_;
  const int max_descriptors_;
  UniqueFd stop_;   ///< eventfd that ends accept_loop()
  UniqueFd spare_;  ///< closed to accept and drop a connection when no descriptor is free
  std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> acceptor_;
  std::unique_ptr<grpc::Server> server_;
  std::thread thread_;
};

}  // namespace dotresize
