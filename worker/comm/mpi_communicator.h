#pragma once

#include <mpi.h>

#include <chrono>
#include <set>
#include <string>

#include "worker/comm/communicator.h"

namespace dotresize {

class MpiTransfer;

/// MPI between CPU ranks. Every operation starts non-blocking and is polled until it completes or
/// is given up. Between polls the thread sleeps while no bytes move, so waiting ranks leave their
/// core to those that compute. MPI moves a rank's sends only during its MPI calls, so a rank that
/// has received stays until its own messages have gone to the ranks that wait for them. Messages
/// are cut into pieces that MPI's int counts can express. Not thread-safe. Must be freed before
/// MPI_Finalize.
class MpiCommunicator final : public Communicator {
 public:
  /// Duplicates `parent`.
  MpiCommunicator(MPI_Comm parent, WaitLimit limit);
  ~MpiCommunicator() override;
  MpiCommunicator(const MpiCommunicator&) = delete;
  MpiCommunicator& operator=(const MpiCommunicator&) = delete;

  void broadcast(at::Tensor& tensor, int root) override;
  void reduce_sum(at::Tensor& tensor, int root) override;
  void all_reduce_sum(at::Tensor& tensor) override;
  std::unique_ptr<Transfer> send(const at::Tensor& tensor, int to) override;
  std::unique_ptr<Transfer> receive(at::Tensor& tensor, int from) override;
  void barrier() override;

  /// Waits until all ranks are here. Errors begin with `operation`.
  void meet(const std::string& operation) const;
  /// Waits for one request, on `tensor` if it has one. Sleeps between polls from `pause_from` on.
  void wait(MPI_Request& request, const std::string& operation, const at::Tensor& tensor,
            std::chrono::steady_clock::time_point pause_from = {}) const;

 private:
  friend class MpiTransfer;

  /// True if a poll that took `look` has moved bytes.
  bool has_moved(std::chrono::nanoseconds look) const;
  /// Stays in MPI while this rank's messages move, at most for kLongestStay.
  void see_off() const;

  std::set<MpiTransfer*> sends_;  ///< sends with an existing transfer
  MPI_Comm comm_ = MPI_COMM_NULL;
  WaitLimit limit_;
  mutable std::chrono::nanoseconds shortest_look_ = std::chrono::nanoseconds::max();
};

}  // namespace dotresize
