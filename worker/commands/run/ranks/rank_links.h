#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "worker/comm/heartbeats.h"
#include "worker/comm/mpi_communicator.h"
#include "worker/cuda/cuda_module.h"

namespace dotresize {

/// Creates a communicator whose transfers may block until both ranks have begun them. `host` and
/// the objects that `limit` refers to must outlive it. Collective over `host`.
using MakeTransport =
    std::function<std::unique_ptr<Communicator>(Communicator& host, WaitLimit limit)>;

/// Links between the ranks while the job runs: heartbeats, MPI, and NCCL or another transport for
/// tensors. A single rank has none of them.
class RankLinks {
 public:
  /// Without a `transport` uses NCCL if the ranks compute on GPUs (`cuda` is not null), else MPI.
  /// Collective over `comm`.
  RankLinks(Communicator& comm, const MakeTransport& transport, CudaModule* cuda,
            HeartbeatOptions options);

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
