#pragma once

#include <c10/cuda/CUDAStream.h>
#include <nccl.h>

#include <array>
#include <functional>
#include <memory>
#include <string>

#include "worker/comm/communicator.h"

namespace dotresize {

/// One NCCL communicator in non-blocking mode with a stream of its own. When
/// `limit` gives up a wait, or NCCL reports an error, the communicator is of no use any more.
/// Errors are CommunicationErrors that begin with the operation. A failed communicator is aborted
/// by its destructor only: ncclCommAbort can block, so the caller reports the error before, and the
/// destructor waits for three seconds. One that fails to start is never aborted: it ends with the
/// process, which cannot go on without it.
class NcclChannel {
 public:
  using Call = std::function<ncclResult_t(ncclComm_t, cudaStream_t)>;

  /// Collective over `ranks` ranks, which share `id`. `max_ctas`: multiprocessors that an operation
  /// may occupy.
  NcclChannel(const ncclUniqueId& id, int ranks, int rank, int max_ctas, WaitLimit limit);
  /// After success: finalizes the communicator with its peers. After an error, or during stack
  /// unwinding: aborts.
  ~NcclChannel();
  NcclChannel(const NcclChannel&) = delete;
  NcclChannel& operator=(const NcclChannel&) = delete;

  /// Starts an operation behind the event `ready`. The result is an event behind the operation.
  std::shared_ptr<CUevent_st> start(const std::string& operation,
                                    const std::shared_ptr<CUevent_st>& ready, const Call& call);
  /// Waits, asleep in between, until the operation that recorded `done` is done.
  void wait(const std::string& operation, const std::shared_ptr<CUevent_st>& ready,
            const std::shared_ptr<CUevent_st>& done);

 private:
  /// Until NCCL has accepted a call that it answered with `result`.
  void settle(const std::string& operation, ncclResult_t result);
  bool is_done(const std::string& operation, const std::shared_ptr<CUevent_st>& event);
  [[noreturn]] void give_up(const std::string& operation, const std::string& reason);
  void check_usable(const std::string& operation) const;

  ncclComm_t comm_ = nullptr;
  bool failed_ = false;
  WaitLimit limit_;
  c10::cuda::CUDAStream stream_;
};

/// NCCL between ranks that have a GPU each; tensors on the CPU, and barriers, go through `host`.
/// What one rank sends and what it receives are separate channels wherever the ranks' numbers are
/// neighbours; collectives have a third one, which may occupy more of a GPU. Neighbours are
/// connected at the start: NCCL would do it in the first transfer, and block both ranks until each
/// has come to it. A transfer occupies its GPU from its begin until the peer has begun it too, so
/// use it through AnnouncedCommunicator. Not thread-safe; must be freed before MPI_Finalize.
class NcclCommunicator final : public Communicator {
 public:
  /// Collective over `host`, on each rank's current GPU. Throws CommunicationError at once if a
  /// start fails; what has started is left to the end of the process.
  NcclCommunicator(Communicator& host, const WaitLimit& limit);

  int rank() const override { return host_.rank(); }
  int size() const override { return host_.size(); }
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
