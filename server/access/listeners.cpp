#include "server/access/listeners.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <stdexcept>

#include "base/files/file_changes.h"
#include "server/access/endpoint.h"
#include "server/store/files.h"

namespace dotresize {
namespace {

constexpr int kBacklog = 512;

void bind_and_listen(const UniqueFd& socket, const sockaddr* address, socklen_t length,
                     const std::string& name) {
  if (!socket || ::bind(socket.get(), address, length) != 0 ||
      ::listen(socket.get(), kBacklog) != 0) {
    throw_errno("cannot listen on " + name);
  }
}

}  // namespace

Listeners listen_on_tcp(const std::string& host, int port) {
  Listeners listeners;
  listeners.port = port;
  const std::string name = host_of({host, port});
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int error = ::getaddrinfo(name.c_str(), std::to_string(port).c_str(), &hints, &found);
  if (error != 0) {
    throw std::runtime_error("cannot listen on " + name + ": " + ::gai_strerror(error));
  }
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> addresses(found, &::freeaddrinfo);
  for (addrinfo* at = addresses.get(); at != nullptr; at = at->ai_next) {
    constexpr int kOn = 1;
    UniqueFd socket(::socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!socket && errno == EAFNOSUPPORT) continue;
    ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &kOn, sizeof(kOn));
    ::setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &kOn, sizeof(kOn));
    if (at->ai_family == AF_INET6) {
      ::setsockopt(socket.get(), IPPROTO_IPV6, IPV6_V6ONLY, &kOn, sizeof(kOn));
    }
    // All addresses share the port that the first one got.
    auto* inet = reinterpret_cast<sockaddr_in*>(at->ai_addr);
    inet->sin_port = htons(static_cast<uint16_t>(listeners.port));
    bind_and_listen(socket, at->ai_addr, at->ai_addrlen, host + ":" + std::to_string(port));
    sockaddr_storage bound{};
    socklen_t length = sizeof(bound);
    if (::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&bound), &length) != 0) {
      throw_errno("cannot read the port");
    }
    // IPv4 and IPv6 addresses have the port at the same offset.
    listeners.port = ntohs(reinterpret_cast<const sockaddr_in&>(bound).sin_port);
    listeners.sockets.push_back(std::move(socket));
  }
  if (listeners.sockets.empty()) throw std::runtime_error("cannot listen on " + host);
  return listeners;
}

Listeners listen_on_unix(const std::filesystem::path& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string name = path.string();
  if (name.size() >= sizeof(address.sun_path)) {
    throw std::runtime_error(
        "the state directory's name is too long for the address of a socket: " + name + " has " +
        std::to_string(name.size()) + " bytes, at most " +
        std::to_string(sizeof(address.sun_path) - 1) + " are possible");
  }
  std::memcpy(address.sun_path, name.data(), name.size());
  files::remove(path);
  Listeners listeners;
  UniqueFd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  bind_and_listen(socket, reinterpret_cast<const sockaddr*>(&address), sizeof(address), name);
  listeners.sockets.push_back(std::move(socket));
  return listeners;
}

std::optional<Peer> peer_of(int socket) {
  sockaddr_storage address{};
  socklen_t length = sizeof(address);
  auto* const plain = reinterpret_cast<sockaddr*>(&address);
  std::array<char, NI_MAXHOST> host{};
  if (::getpeername(socket, plain, &length) != 0 || address.ss_family == AF_UNIX ||
      ::getnameinfo(plain, length, host.data(), host.size(), nullptr, 0, NI_NUMERICHOST) != 0) {
    return std::nullopt;
  }
  // IPv4 and IPv6 addresses have the port at the same offset.
  return Peer{host.data(), ntohs(reinterpret_cast<const sockaddr_in&>(address).sin_port)};
}

std::string Peer::in_grpc() const {
  const bool v6 = address.find(':') != std::string::npos;
  std::string name = v6 ? "ipv6:%5B" : "ipv4:";
  for (const char c : address) name += c == '%' ? "%25" : std::string(1, c);
  return name + (v6 ? "%5D:" : ":") + std::to_string(port);
}

}  // namespace dotresize
