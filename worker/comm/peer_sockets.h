#pragma once

#include <netinet/in.h>

#include <cstdint>
#include <string>
#include <vector>

#include "base/files/unique_fd.h"
#include "worker/comm/communicator.h"

namespace dotresize {

/// A rank and the addresses of its UDP socket: one for each network of its host.
struct PeerSocket {
  std::string host;
  std::vector<sockaddr_in> addresses;
};

/// This rank's UDP socket, and the addresses of all ranks.
struct PeerSockets {
  int rank = 0;
  UniqueFd socket;
  std::string token;              ///< the job's 16 random bytes, which mark its packets
  std::vector<PeerSocket> ranks;  ///< all ranks, including this one
};

inline constexpr size_t kTokenBytes = 16;

/// Opens a non-blocking IPv4 UDP socket on a free port, of the loopback device only or of all
/// networks. Throws CommunicationError.
UniqueFd open_udp_socket(bool loopback_only);
/// Returns the port in host byte order.
uint16_t port_of(const UniqueFd& socket);
sockaddr_in loopback_address(uint16_t port);

/// Opens a socket in each rank and shares the addresses. Ranks with a common network stack use its
/// loopback device; if all ranks do, no packet of another host gets in. Collective. Throws
/// CommunicationError.
PeerSockets open_peer_sockets(Communicator& comm);

}  // namespace dotresize
