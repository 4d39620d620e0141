#pragma once

#include <grpcpp/grpcpp.h>
#include <grpcpp/server_builder.h>

#include <chrono>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/unique_fd.h"

namespace dotresize {

/// Sockets that wait for connections.
struct Listeners {
  std::vector<UniqueFd> sockets;
  int port = 0;  ///< of TCP
};

/// On all addresses of the host ("127.0.0.1", "localhost", "[::1]"); port 0: any free one. Throws
/// std::system_error, or std::runtime_error for a host that has no address.
Listeners listen_on_tcp(const std::string& host, int port);

/// On a Unix socket, in place of one that is there. Throws std::system_error, or std::runtime_error
/// if the path is longer than such addresses may be.
Listeners listen_on_unix(const std::filesystem::path& path);

/// Lets this process open as many files as it may, at most 4096. Returns how many it may open now.
int raise_descriptor_limit();

class Metrics;

struct GuardedServerOptions {
  int max_descriptors = 0;  ///< a connection that would make it more is closed at once
  int max_threads = 0;      ///< for calls that block
  std::vector<grpc::Service*> services;
  std::shared_ptr<grpc::ServerCredentials> credentials = grpc::InsecureServerCredentials();
  Metrics* metrics = nullptr;  ///< of the calls of the Jobs service; null: nobody counts them
};

/// A gRPC server that accepts its connections itself: gRPC 1.51 accepts none any more, ever, once
/// the process has been without a free descriptor (CVE-2023-4785).
class GuardedServer {
 public:
  /// Throws std::runtime_error if gRPC does not start.
  GuardedServer(Listeners listeners, const GuardedServerOptions& options);
  /// shutdown() without grace.
  ~GuardedServer();
  GuardedServer(const GuardedServer&) = delete;
  GuardedServer& operator=(const GuardedServer&) = delete;

  /// What grpc.health.v1 says of the whole server and of its services.
  void set_serving(bool serving);
  /// Accepts nothing more, gives calls in progress so long, and waits for their end. A second later
  /// it cuts what is still connected.
  void shutdown(std::chrono::milliseconds grace);

 private:
  void accept_loop();
  void accept_one(int listener);
  void warn_of_refusal();
  /// gRPC keeps a connection until what it has for it is written: one whose peer takes nothing
  /// would keep the server.
  void cut_connections();

  Listeners listeners_;
  const int max_descriptors_;
  UniqueFd stop_;   ///< an eventfd
  UniqueFd spare_;  ///< given up to get rid of a connection if there is no other descriptor
  std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> acceptor_;
  std::unique_ptr<grpc::Server> server_;
  std::chrono::steady_clock::time_point next_warning_;  ///< the accepting thread's
  std::thread thread_;
};

}  // namespace dotresize
