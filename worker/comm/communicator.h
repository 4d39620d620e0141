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

/// Asked again and again by an operation that waits for peers, with its name and the time since
/// when it does, which no other wait of the rank has: why it is given up, as in "did not complete
/// within 5 s", to follow the operation's name. Empty: it goes on waiting. Called from the thread
/// that waits.
using WaitLimit = std::function<std::string(const std::string& operation,
                                            std::chrono::steady_clock::time_point begun)>;

/// Each operation may take so long. For what comes before Heartbeats.
WaitLimit wait_at_most(std::chrono::seconds timeout);

/// An operation that was given up may read or write its tensor as long as the process lives: the
/// memory is never used for anything else.
void keep_forever(const at::Tensor& tensor);

/// A transfer in flight. The tensor given to send or receive stays untouched until wait() returns.
class Transfer {
 public:
  virtual ~Transfer() = default;
  /// Returns once the transfer goes on by itself. A send has begun when send() returns; a receive
  /// begins at the latest in wait(), and where transfers block, not before its peer has begun to
  /// send. Receives from one rank begin in the order of its sends.
  virtual void begin() {}
  virtual void wait() = 0;
};

/// Communication between the ranks of a job. All calls take contiguous tensors and are made
/// from one thread; collectives are called by every rank in the same order with the same shapes and
/// dtypes. Reductions take float32, float64 and int64; everything else moves any dtype. A call that
/// its WaitLimit gives up throws CommunicationError.
class Communicator {
 public:
  virtual ~Communicator() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;

  virtual void broadcast(at::Tensor& tensor, int root) = 0;
  /// The sum over ranks arrives at `root`; the other ranks' tensors are unchanged.
  virtual void reduce_sum(at::Tensor& tensor, int root) = 0;
  virtual void all_reduce_sum(at::Tensor& tensor) = 0;
  /// May block until the peer has begun to receive.
  virtual std::unique_ptr<Transfer> send(const at::Tensor& tensor, int to) = 0;
  /// Never blocks: Transfer::begin() may.
  virtual std::unique_ptr<Transfer> receive(at::Tensor& tensor, int from) = 0;
  virtual void barrier() = 0;
};

/// The rank that does what ranks take turns at, sublayer after sublayer say.
inline int rank_in_turn(const Communicator& comm, int64_t step) {
  return static_cast<int>(step % comm.size());
}

/// One rank alone: collectives are the identity, and there is no rank to send to.
class SelfCommunicator final : public Communicator {
 public:
  int rank() const override { return 0; }
  int size() const override { return 1; }
  void broadcast(at::Tensor&, int) override {}
  void reduce_sum(at::Tensor&, int) override {}
  void all_reduce_sum(at::Tensor&) override {}
  /// Throws std::logic_error: a schedule that sends to itself is wrong.
  std::unique_ptr<Transfer> send(const at::Tensor& tensor, int to) override;
  std::unique_ptr<Transfer> receive(at::Tensor& tensor, int from) override;
  void barrier() override {}
};

/// The tensor `owned` of `root`, on every rank: elsewhere `owned` is not read, and the result is a
/// new tensor of this shape, dtype and device. Collective.
at::Tensor broadcast_tensor(Communicator& comm, const at::Tensor& owned, at::IntArrayRef shape,
                            const at::TensorOptions& options, int root);

/// Every rank's number, in rank order, on every rank. Collective.
std::vector<int64_t> gather_numbers(Communicator& comm, int64_t mine);
/// Strings of any length over the tensor operations above.
std::string broadcast_string(Communicator& comm, const std::string& text, int root);
/// At `root`: one string per rank, in rank order; elsewhere empty.
std::vector<std::string> gather_strings(Communicator& comm, const std::string& text, int root);

/// Any communicator, with its time booked: as the phase "wait" in barriers and until a message of
/// another rank has come or gone, as "communicate" in collectives (which wait for the last rank
/// too).
class TimedCommunicator final : public Communicator {
 public:
  TimedCommunicator(Communicator& inner, PhaseClock& clock) : inner_(inner), clock_(clock) {}

  int rank() const override { return inner_.rank(); }
  int size() const override { return inner_.size(); }
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

}  // namespace dotresize
