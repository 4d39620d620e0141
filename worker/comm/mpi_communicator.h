#pragma once

#include <mpi.h>

#include <string>

#include "worker/comm/communicator.h"

namespace dotresize {

/// MPI between CPU ranks. Every operation is started non-blocking and polled until it completes or
/// is given up, asleep in between: ranks that wait leave their core to those that compute. Large
/// collective operations begin once all ranks have come to them. Messages are cut into pieces that
/// MPI's int counts can express. Not thread-safe; the communicator must be freed before
/// MPI_Finalize.
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

  /// What a rank does between two looks at an operation that is not complete. Bytes move while
  /// both sides look: a rank that sleeps makes a transfer slow that has begun.
  enum class Between { kSleep, kYield };
  /// Waits for one request on `tensor`. `operation` begins the sentence of an error.
  void wait(MPI_Request& request, const std::string& operation, const at::Tensor& tensor,
            Between between = Between::kSleep) const;

 private:
  template <typename Start>
  void complete(const at::Tensor& tensor, const std::string& operation, const Start& start);
  /// Until all ranks have come.
  void meet(const std::string& operation);

  MPI_Comm comm_ = MPI_COMM_NULL;
  WaitLimit limit_;
  int rank_ = 0;
  int size_ = 1;
};

}  // namespace dotresize
