#pragma once

#include <mpi.h>

#include "worker/comm/mpi_communicator.h"

namespace dotresize::testing {

/// MPI with the strictest order that NCCL's point-to-point transfers can have: a rank does nothing
/// else between the begin and the end of a transfer. A schedule that relies on two transfers
/// progressing independently hangs, whatever their size. `limit` bounds each wait.
class RendezvousCommunicator final : public Communicator {
 public:
  /// Duplicates `parent`. Collective.
  RendezvousCommunicator(MPI_Comm parent, const WaitLimit& limit);
  ~RendezvousCommunicator() override;
  RendezvousCommunicator(const RendezvousCommunicator&) = delete;
  RendezvousCommunicator& operator=(const RendezvousCommunicator&) = delete;

  void broadcast(at::Tensor& tensor, int root) override { collectives_.broadcast(tensor, root); }
  void reduce_sum(at::Tensor& tensor, int root) override { collectives_.reduce_sum(tensor, root); }
  void all_reduce_sum(at::Tensor& tensor) override { collectives_.all_reduce_sum(tensor); }
  void barrier() override { collectives_.barrier(); }
  /// Returns when the peer has begun to receive.
  std::unique_ptr<Transfer> send(const at::Tensor& tensor, int to) override;
  /// The transfer's begin() returns when the peer has sent.
  std::unique_ptr<Transfer> receive(at::Tensor& tensor, int from) override;

 private:
  MpiCommunicator collectives_;
  MPI_Comm transfers_ = MPI_COMM_NULL;
};

}  // namespace dotresize::testing
