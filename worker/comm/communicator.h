#pragma once

#include <ATen/core/Tensor.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/phase_clock.h"

namespace dotresize {

/// A peer is silent, or MPI or NCCL reported an error. The text names rank and operation.
class CommunicationError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Decides if a wait for peers is given up. An operation calls it repeatedly with its name and the
/// time when its wait began, which identifies the wait within the rank. The result is the reason to
/// give up, worded to follow the operation's name, such as "did not complete within 5 s"; empty: go
/// on waiting. Called from the waiting thread.
using WaitLimit = std::function<std::string(const std::string& operation,
                                            std::chrono::steady_clock::time_point begun)>;

/// Returns a limit of `timeout` for each operation, for use before Heartbeats exist.
WaitLimit wait_at_most(std::chrono::seconds timeout);

/// Keeps the tensor's memory for the life of the process, because an operation that was given up
/// may still read or write it.
void keep_forever(const at::Tensor& tensor);

/// A transfer in flight. Its tensor must not be touched until wait() returns.
class Transfer {
 public:
  virtual ~Transfer() = default;
  /// Returns once the transfer proceeds by itself. A send has begun when send() returns. A receive
  /// begins in wait() at the latest; where transfers block, it begins after its peer has begun to
  /// send. Receives from one rank begin in the order of its sends.
  virtual void begin() {}
  virtual void wait() = 0;
};

/// Communication between the ranks of a job. All calls take contiguous tensors and come from one
/// thread. Every rank calls the collectives in the same order with the same shapes and dtypes.
/// Reductions take float32, float64 and int64; all other calls take any dtype. A call that its
/// WaitLimit gives up throws CommunicationError.
class Communicator {
 public:
  virtual ~Communicator() = default;

  int rank() const { return rank_; }
  int size() const { return size_; }

  virtual void broadcast(at::Tensor& tensor, int root) = 0;
  /// Stores the sum over ranks at `root`; the other ranks' tensors are unchanged.
  virtual void reduce_sum(at::Tensor& tensor, int root) = 0;
  virtual void all_reduce_sum(at::Tensor& tensor) = 0;
  /// May block until the peer has begun to receive.
  virtual std::unique_ptr<Transfer> send(const at::Tensor& tensor, int to) = 0;
  /// Never blocks; Transfer::begin() may.
  virtual std::unique_ptr<Transfer> receive(at::Tensor& tensor, int from) = 0;
  virtual void barrier() = 0;

 protected:
  explicit Communicator(int rank = 0, int size = 1) : rank_(rank), size_(size) {}

  int rank_;
  int size_;
};

/// Returns the rank whose turn it is at `step`, for work that ranks do in turns, such as sublayers.
inline int rank_in_turn(const Communicator& comm, int64_t step) {
  return static_cast<int>(step % comm.size());
}

/// Communicator of a single rank: collectives are the identity, and there is no peer.
class SelfCommunicator final : public Communicator {
 public:
  void broadcast(at::Tensor&, int) override {}
  void reduce_sum(at::Tensor&, int) override {}
  void all_reduce_sum(at::Tensor&) override {}
  /// Throws std::logic_error: a schedule that sends to itself is wrong.
  std::unique_ptr<Transfer> send(const at::Tensor& tensor, int to) override;
  std::unique_ptr<Transfer> receive(at::Tensor& tensor, int from) override;
  void barrier() override {}
};

/// Returns the tensor `owned` of `root` on every rank. Other ranks' `owned` is not read; their
/// result is a new tensor of this shape, dtype and device. Collective.
at::Tensor broadcast_tensor(Communicator& comm, const at::Tensor& owned, at::IntArrayRef shape,
                            const at::TensorOptions& options, int root);

/// Returns every rank's number, in rank order, on every rank. Collective.
std::vector<int64_t> gather_numbers(Communicator& comm, int64_t mine);
/// Returns the string of `root`, of any length, on every rank. Collective.
std::string broadcast_string(Communicator& comm, const std::string& text, int root);
/// Returns one string per rank at `root`, in rank order; elsewhere nothing. Collective.
std::vector<std::string> gather_strings(Communicator& comm, const std::string& text, int root);

/// Books the time of a communicator to phases: "wait" in barriers and until a message to or from
/// another rank is through, "communicate" in collectives (which also wait for the last rank).
class TimedCommunicator final : public Communicator {
 public:
  TimedCommunicator(Communicator& inner, PhaseClock& clock)
      : Communicator(inner.rank(), inner.size()), inner_(inner), clock_(clock) {}

  void broadcast(at::Tensor& tensor, int root) override;
  void reduce_sum(at::Tensor& tensor, int root) override;
  void all_reduce_sum(at::Tensor& tensor) override;
  std::unique_ptr<Transfer> send(const at::Tensor& tensor, int to) override;
  std::unique_ptr<Transfer> receive(at::Tensor& tensor, int from) override;
  void barrier() override;

 private:
  Communicator& inner_;
  PhaseClock& clock_;
};

/// A communicator that makes blocking transfers (NCCL's, which block until both ranks have begun
/// them) safe for schedules that receive ahead. A send is announced to the receiver's host first,
/// and a receive begins once the announcement has come. So nothing waits on a device for a peer
/// that has not begun to send. Transfers between two ranks begin in the order of the sends.
class AnnouncedCommunicator final : public Communicator {
 public:
  /// `notes` carries only the announcements, as tensors on the CPU. Both must outlive this object.
  AnnouncedCommunicator(Communicator& notes, Communicator& inner)
      : Communicator(inner.rank(), inner.size()), notes_(notes), inner_(inner) {}

  void broadcast(at::Tensor& tensor, int root) override { inner_.broadcast(tensor, root); }
  void reduce_sum(at::Tensor& tensor, int root) override { inner_.reduce_sum(tensor, root); }
  void all_reduce_sum(at::Tensor& tensor) override { inner_.all_reduce_sum(tensor); }
  void barrier() override { inner_.barrier(); }
  std::unique_ptr<Transfer> send(const at::Tensor& tensor, int to) override;
  std::unique_ptr<Transfer> receive(at::Tensor& tensor, int from) override;

 private:
  Communicator& notes_;
  Communicator& inner_;
};

}  // namespace dotresize
