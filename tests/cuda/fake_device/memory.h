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

/// Of blocks on the calling thread's device and stream. They begin with all bits set: NaN.
c10::Allocator& gpu_allocator();
/// What a kernel of the CPU has made, as memory of the calling thread's device and stream.
c10::Storage to_gpu(c10::Storage made);
/// Of a tensor on the GPU.
Block& block_of(const at::Tensor& tensor);

/// Pinned memory of the host.
c10::Allocator& host_allocator();
bool is_pinned(const void* data);

int64_t held_bytes();
int64_t most_held_bytes();

/// The tensor on the CPU, of the same memory; a tensor on the CPU itself.
at::Tensor alias_on_cpu(const at::Tensor& tensor);

/// An operation on the calling thread's stream of a GPU.
class Operation {
 public:
  Operation(std::string name, c10::DeviceIndex device);
  /// On the stream.
  Operation(std::string name, StreamName stream);
  // Nothing of tensors on the CPU. Throw as Order does.
  void reads(const at::Tensor& tensor) const;
  void writes(const at::Tensor& tensor) const;
  /// The host waits for all of its stream.
  void synchronize() const;

 private:
  Access access_to(const at::Tensor& tensor) const;

  std::string name_;
  StreamName stream_;
  uint64_t count_;
};

}  // namespace dotresize::fake_device
