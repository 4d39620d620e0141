#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "worker/comm/communicator.h"

namespace dotresize {

/// Tensors that a pipeline stage receives from its neighbours, in the order of use. One is received
/// in advance, while the stage computes with the one before.
class Incoming {
 public:
  struct Message {
    int from = 0;
    std::vector<int64_t> shape;
  };

  /// Messages are float32 on `device`. `comm` outlives the object.
  Incoming(Communicator& comm, std::vector<Message> messages, at::Device device);

  /// Waits for the next message.
  at::Tensor take();
  /// Starts to receive the next message if it comes from `rank`. Call it before a send that `rank`
  /// receives only after it has sent that message.
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

/// Tensors sent to one neighbour, one in flight at a time.
struct Outgoing {
  Communicator& comm;
  int to = 0;
  std::unique_ptr<Transfer> transfer = nullptr;  ///< transfer of the tensor in flight

  void put(const at::Tensor& x);
  /// Waits until the last tensor is sent.
  void drain();
};

}  // namespace dotresize
