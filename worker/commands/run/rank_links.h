#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "worker/comm/heartbeats.h"
#include "worker/comm/mpi_communicator.h"
#include "worker/cuda/cuda_module.h"

namespace dotresize {

/// Makes a communicator whose transfers may block until both ranks have begun them. Collective over
/// `host`, which outlives it, as does what `limit` refers to.
using MakeTransport =
    std::function<std::unique_ptr<Communicator>(Communicator& host, WaitLimit limit)>;

/// NCCL if the ranks compute on GPUs; else none, which is MPI.
MakeTransport transport_of(CudaModule* cuda);

/// Between the ranks while the job runs: heartbeats, MPI, and NCCL or another transport for
/// tensors. One rank alone has none of it.
class RankLinks {
 public:
  /// Without a `transport` it is MPI's. Collective over `comm`.
  RankLinks(Communicator& comm, const MakeTransport& transport, HeartbeatOptions options);

  bool is_peer_silent() const { return heartbeats_ && !heartbeats_->silence().empty(); }
  Communicator& comm();

 private:
  SelfCommunicator alone_;
  std::optional<Heartbeats> heartbeats_;
  std::optional<MpiCommunicator> host_;
  std::optional<MpiCommunicator> notes_;
  std::unique_ptr<Communicator> transport_;
  std::unique_ptr<Communicator> announced_;
};

}  // namespace dotresize
