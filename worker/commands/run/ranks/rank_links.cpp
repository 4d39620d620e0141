#include "worker/commands/run/ranks/rank_links.h"

#include <mpi.h>

#include <utility>

#include "worker/comm/peer_sockets.h"

namespace dotresize {

RankLinks::RankLinks(Communicator& comm, const MakeTransport& transport, CudaModule* cuda,
                     HeartbeatOptions options) {
  if (comm.size() == 1) return;
  heartbeats_.emplace(open_peer_sockets(comm), std::move(options));
  heartbeats_->wait_for_peers();
  host_.emplace(MPI_COMM_WORLD, heartbeats_->wait_limit());
  if (!transport && cuda == nullptr) return;
  transport_ = transport ? transport(*host_, heartbeats_->wait_limit())
                         : cuda->make_communicator(*host_, heartbeats_->wait_limit());
  notes_.emplace(MPI_COMM_WORLD, heartbeats_->wait_limit());
  announced_ = std::make_unique<AnnouncedCommunicator>(*notes_, *transport_);
}

Communicator& RankLinks::comm() {
  if (announced_) return *announced_;
  if (host_) return *host_;
  return alone_;
}

}  // namespace dotresize
