#include "worker/comm/peer_sockets.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

#include "base/process/environment.h"

namespace dotresize {
namespace {

using Json = nlohmann::json;

CommunicationError socket_error(const std::string& what) {
  return CommunicationError(what + " for heartbeats: " + std::generic_category().message(errno));
}

/// Returns IPv4 addresses of this host's active networks, without the loopback device.
std::vector<std::string> network_addresses() {
  ifaddrs* first = nullptr;
  if (::getifaddrs(&first) != 0) throw socket_error("cannot list network addresses");
  std::vector<std::string> addresses;
  for (const ifaddrs* entry = first; entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_addr == nullptr || entry->ifa_addr->sa_family != AF_INET) continue;
    if ((entry->ifa_flags & IFF_UP) == 0 || (entry->ifa_flags & IFF_LOOPBACK) != 0) continue;
    sockaddr_in address{};
    std::memcpy(&address, entry->ifa_addr, sizeof(address));
    char text[INET_ADDRSTRLEN];
    ::inet_ntop(AF_INET, &address.sin_addr, text, sizeof(text));
    addresses.emplace_back(text);
  }
  ::freeifaddrs(first);
  return addresses;
}

/// Returns every rank's JSON on every rank.
std::vector<Json> share(Communicator& comm, const Json& mine) {
  Json all = Json::array();
  for (const std::string& text : gather_strings(comm, mine.dump(), 0)) {
    all.push_back(Json::parse(text));
  }
  return Json::parse(broadcast_string(comm, comm.rank() == 0 ? all.dump() : "", 0));
}

}  // namespace

sockaddr_in loopback_address(uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

UniqueFd open_udp_socket(bool loopback_only) {
  UniqueFd fd(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) throw socket_error("cannot open a UDP socket");
  sockaddr_in address = loopback_address(0);
  if (!loopback_only) address.sin_addr.s_addr = htonl(INADDR_ANY);
  if (::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    throw socket_error("cannot bind a UDP socket");
  }
  return fd;
}

uint16_t port_of(const UniqueFd& socket) {
  sockaddr_in address{};
  socklen_t length = sizeof(address);
  if (::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&address), &length) != 0) {
    throw socket_error("cannot read the port");
  }
  return ntohs(address.sin_port);
}

PeerSockets open_peer_sockets(Communicator& comm) {
  // A text that is equal exactly for processes that share a loopback device; empty if unknown.
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string boot;
  std::getline(file, boot);
  std::error_code error;
  const std::string space = std::filesystem::read_symlink("/proc/self/ns/net", error).string();
  const std::string stack = boot.empty() || error ? "" : boot + " " + space;

  const std::vector<Json> stacks = share(comm, stack);
  const bool one_stack = !stack.empty() && std::ranges::count(stacks, Json(stack)) == comm.size();
  PeerSockets sockets{comm.rank(), open_udp_socket(one_stack), {}, {}};
  sockets.token =
      broadcast_string(comm, comm.rank() == 0 ? random_bytes(kTokenBytes) : std::string(), 0);
  const std::vector<Json> peers = share(comm, {{"host", host_name()},
                                               {"port", port_of(sockets.socket)},
                                               {"addresses", network_addresses()}});
  for (size_t rank = 0; rank < peers.size(); ++rank) {
    const Json& peer = peers[rank];
    const uint16_t port = peer.at("port");
    PeerSocket found{peer.at("host"), {}};
    if (!stack.empty() && stacks[rank] == stack) {
      found.addresses = {loopback_address(port)};
    } else {
      for (const std::string text : peer.at("addresses")) {
        sockaddr_in address = loopback_address(port);
        if (::inet_pton(AF_INET, text.c_str(), &address.sin_addr) == 1) {
          found.addresses.push_back(address);
        }
      }
    }
    sockets.ranks.push_back(std::move(found));
  }
  return sockets;
}

}  // namespace dotresize
