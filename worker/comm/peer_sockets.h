#pragma once

#include <netinet/in.h>

#include <cstdint>
#include <string>
#include <vector>

#include "base/unique_fd.h"
#include "worker/comm/communicator.h"

namespace dotresize {

/// A rank and where its UDP socket can be reached: one address of each network of its host.
struct PeerSocket {
  std::string host;
  std::vector<sockaddr_in> addresses;
};

/// This rank's UDP socket and those of all ranks.
struct PeerSockets {
  int rank = 0;
  UniqueFd socket;
  std::string token;              ///< 16 random bytes, the job's own: tells its packets from others
  std::vector<PeerSocket> ranks;  ///< by rank; also this one
};

inline constexpr size_t kTokenBytes = 16;

/// A UDP socket over IPv4 that is bound to a free port: of the loopback device only, or of all
/// networks. Non-blocking. Throws CommunicationError.
UniqueFd open_udp_socket(bool loopback_only);
/// In host byte order.
uint16_t port_of(const UniqueFd& socket);
sockaddr_in loopback_address(uint16_t port);

/// Opens a socket in each rank and tells all ranks where they are. Ranks that share a network stack
/// meet over its loopback device, and if all of them do, no packet of another host arrives.
/// Collective. Throws CommunicationError.
PeerSockets open_peer_sockets(Communicator& comm);

}  // namespace dotresize
