#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
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

/// The other end of a TCP connection.
struct Peer {
  std::string address;  ///< "127.0.0.1", "::1"
  uint16_t port = 0;

  /// The name that gRPC gives it: "ipv4:127.0.0.1:4711", "ipv6:%5B::1%5D:4711".
  std::string in_grpc() const;
  bool operator==(const Peer&) const = default;
};

/// Returns nullopt for a socket that is not connected, or not TCP.
std::optional<Peer> peer_of(int socket);

}  // namespace dotresize
