#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "worker/comm/communicator.h"

namespace dotresize {

/// The tensors that a stage of a pipeline gets from its neighbours, in the order in which it takes
/// them. One is received ahead, as soon as the communicator can: it arrives while the stage
/// computes with the one before.
class Incoming {
 public:
  struct Message {
    int from = 0;
    std::vector<int64_t> shape;
  };

  /// float32 on `device`. `comm` outlives the object.
  Incoming(Communicator& comm, std::vector<Message> messages, at::Device device);

  /// Waits for the next message.
  at::Tensor take();
  /// Begins to receive the next message if it is of this rank: before something is sent there that
  /// the rank takes only once it has sent that message.
  void begin_from(int rank);

 private:
  void post();

  Communicator& comm_;
  std::vector<Message> messages_;
  at::Device device_;
  std::size_t next_ = 0;
  at::Tensor buffer_;
  std::unique_ptr<Transfer> transfer_;
};

/// To one neighbour, with one tensor under way.
class Outgoing {
 public:
  Outgoing(Communicator& comm, int to) : comm_(comm), to_(to) {}

  void put(const at::Tensor& x);
  /// Waits until the last tensor has gone.
  void drain();

 private:
  Communicator& comm_;
  int to_;
  std::unique_ptr<Transfer> transfer_;
};

}  // namespace dotresize
