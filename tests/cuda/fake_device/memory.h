#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Allocator.h>

#include <cstdint>

#include "tests/cuda/fake_device/order.h"

namespace dotresize::fake_device {

/// Memory of a GPU: ordinary memory that only its tensors refer to.
struct Block {
  c10::DataPtr owner;
  int64_t bytes = 0;
  History history;
};

/// Allocates blocks on the calling thread's device and stream, with all bits set: NaN.
c10::Allocator& gpu_allocator();
/// Turns a CPU kernel's output into memory of the calling thread's device and stream.
c10::Storage to_gpu(c10::Storage made);
/// Returns the block of a tensor on the GPU.
Block& block_of(const at::Tensor& tensor);

/// Allocates pinned memory of the host.
c10::Allocator& host_allocator();
bool is_pinned(const void* data);

int64_t held_bytes();
int64_t most_held_bytes();

/// Returns a CPU tensor over the same memory; `tensor` itself if it is on the CPU.
at::Tensor alias_on_cpu(const at::Tensor& tensor);

/// An operation on the calling thread's stream of a GPU.
class Operation {
 public:
  Operation(std::string name, c10::DeviceIndex device);
  /// An operation on the given stream.
  Operation(std::string name, StreamName stream);
  // Record accesses of the operation. Ignore tensors on the CPU. Throw like Order.
  void reads(const at::Tensor& tensor) const;
  void writes(const at::Tensor& tensor) const;
  /// Makes the host wait for the operation's stream.
  void synchronize() const;

 private:
  Access access_to(const at::Tensor& tensor) const;

  std::string name_;
  StreamName stream_;
  uint64_t count_;
};

}  // namespace dotresize::fake_device
