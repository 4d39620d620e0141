#pragma once

#include <mpi.h>

#include <chrono>
#include <set>
#include <string>

#include "worker/comm/communicator.h"

namespace dotresize {

class MpiSend;

/// MPI between CPU ranks. Every operation is started non-blocking and polled until it completes or
/// is given up, asleep in between while no bytes move: ranks that wait leave their core to those
/// that compute. What a rank sends moves only while it is in a call of MPI, so a rank that has
/// received stays until its own messages have gone to the ranks that wait for them. Messages are
/// cut into pieces that MPI's int counts can express. Not thread-safe; the communicator must be
/// freed before MPI_Finalize.
class MpiCommunicator final : public Communicator {
 public:
  /// Duplicates `parent`.
  MpiCommunicator(MPI_Comm parent, WaitLimit limit);
  ~MpiCommunicator() override;
  MpiCommunicator(const MpiCommunicator&) = delete;
  MpiCommunicator& operator=(const MpiCommunicator&) = delete;

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  void broadcast(at::Tensor& tensor, int root) override;
  void reduce_sum(at::Tensor& tensor, int root) override;
  void all_reduce_sum(at::Tensor& tensor) override;
  std::unique_ptr<Transfer> send(const at::Tensor& tensor, int to) override;
  std::unique_ptr<Transfer> receive(at::Tensor& tensor, int from) override;
  void barrier() override;

  /// Waits until all ranks are here. `operation` begins the sentence of an error.
  void meet(const std::string& operation) const;
  /// Waits for one request on `tensor`, if it has one. It pauses between looks from `pause_from`
  /// on.
  void wait(MPI_Request& request, const std::string& operation, const at::Tensor& tensor,
            std::chrono::steady_clock::time_point pause_from = {}) const;

 private:
  friend class MpiSend;
  friend class MpiReceive;

  /// Whether a look at an operation that took so long has moved bytes.
  bool has_moved(std::chrono::nanoseconds look) const;
  /// Stays in MPI as long as messages of this rank move, but no longer than kLongestStay.
  void see_off() const;

  std::set<MpiSend*> sends_;  ///< whose transfers exist
  MPI_Comm comm_ = MPI_COMM_NULL;
  WaitLimit limit_;
  int rank_ = 0;
  int size_ = 1;
  mutable std::chrono::nanoseconds shortest_look_ = std::chrono::nanoseconds::max();
};

}  // namespace dotresize
