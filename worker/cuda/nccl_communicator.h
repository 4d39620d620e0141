#pragma once

#include <c10/cuda/CUDAStream.h>
#include <nccl.h>

#include <array>
#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "worker/comm/communicator.h"

namespace dotresize {

/// An NCCL communicator in non-blocking mode with its own stream. It is unusable once `limit` has
/// given up a wait or NCCL has reported an error. Errors are CommunicationErrors that begin with
/// the operation. Only the destructor aborts a failed communicator: ncclCommAbort can block, so the
/// caller reports the error first, and the destructor waits at most three seconds. A communicator
/// that fails to start is never aborted. It ends with the process, which cannot go on without it.
class NcclChannel {
 public:
  using Call = std::function<ncclResult_t(ncclComm_t, cudaStream_t)>;

  /// Joins `ranks` ranks, which share `id`. `max_ctas`: multiprocessors that an operation may
  /// occupy. Collective.
  NcclChannel(const ncclUniqueId& id, int ranks, int rank, int max_ctas, WaitLimit limit);
  /// Finalizes the communicator with its peers. After an error, or during stack unwinding, aborts
  /// it.
  ~NcclChannel();
  NcclChannel(const NcclChannel&) = delete;
  NcclChannel& operator=(const NcclChannel&) = delete;

  /// Starts an operation after the event `ready`. Returns an event after the operation.
  std::shared_ptr<CUevent_st> start(const std::string& operation,
                                    const std::shared_ptr<CUevent_st>& ready, const Call& call);
  /// Waits, sleeping between polls, until the operation that recorded `done` is done.
  void wait(const std::string& operation, const std::shared_ptr<CUevent_st>& ready,
            const std::shared_ptr<CUevent_st>& done);

 private:
  /// Waits until NCCL has accepted a call that returned `result`.
  void settle(const std::string& operation, ncclResult_t result);
  bool is_done(const std::string& operation, const std::shared_ptr<CUevent_st>& event);
  [[noreturn]] void give_up(const std::string& operation, const std::string& reason);
  void check_usable(const std::string& operation) const;
  /// Gives up a wait that began at `start` if its limit says so; else sleeps for `length`, which
  /// grows.
  void pause(const std::string& operation, std::chrono::steady_clock::time_point start,
             std::chrono::microseconds& length);

  ncclComm_t comm_ = nullptr;
  bool failed_ = false;
  WaitLimit limit_;
  c10::cuda::CUDAStream stream_;
};

/// NCCL between ranks with one GPU each. Tensors on the CPU, and barriers, go through `host`. A
/// rank's sends and receives use separate channels if the ranks' numbers are neighbours.
/// Collectives use a third channel, which may occupy more of a GPU. Neighbours are connected at the
/// start: NCCL would otherwise connect them in the first transfer and block both ranks until each
/// has reached it. A transfer occupies its GPU from its begin until the peer has begun it too, so
/// use it through AnnouncedCommunicator. Not thread-safe. Must be freed before MPI_Finalize.
class NcclCommunicator final : public Communicator {
 public:
  /// Collective over `host`, on each rank's current GPU. Throws CommunicationError at once if a
  /// start fails. Communicators that have started then end with the process.
  NcclCommunicator(Communicator& host, const WaitLimit& limit);

  void broadcast(at::Tensor& tensor, int root) override;
  void reduce_sum(at::Tensor& tensor, int root) override;
  void all_reduce_sum(at::Tensor& tensor) override;
  std::unique_ptr<Transfer> send(const at::Tensor& tensor, int to) override;
  std::unique_ptr<Transfer> receive(at::Tensor& tensor, int from) override;
  void barrier() override { host_.barrier(); }

 private:
  void connect_neighbours();
  NcclChannel& channel_of_sender(int rank) { return *transfers_[static_cast<size_t>(rank % 2)]; }

  Communicator& host_;
  std::array<std::unique_ptr<NcclChannel>, 2> transfers_;
  std::unique_ptr<NcclChannel> collectives_;
};

}  // namespace dotresize
