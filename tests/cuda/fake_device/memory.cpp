#include "tests/cuda/fake_device/memory.h"

#include <ATen/ATen.h>
#include <c10/core/CPUAllocator.h>
#include <fmt/ranges.h>

#include <atomic>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

#include "tests/cuda/fake_device/streams.h"

namespace dotresize::fake_device {
namespace {

std::atomic<int64_t> held{0};
std::atomic<int64_t> most_held{0};

void delete_block(void* pointer) {
  const std::unique_ptr<Block> block(static_cast<Block*>(pointer));
  held -= block->bytes;
  Order::get().free(block->history);
}

c10::DataPtr make_block(c10::DataPtr owner, size_t bytes) {
  void* data = owner.get();
  const c10::Device device(c10::kCUDA, current_device());
  auto block = std::make_unique<Block>(std::move(owner), static_cast<int64_t>(bytes));
  Order::get().allocate(block->history, current_stream(device.index()));
  const int64_t now = held += block->bytes;
  int64_t most = most_held;
  while (now > most && !most_held.compare_exchange_weak(most, now)) {
  }
  return {data, block.release(), &delete_block, device};
}

class GpuAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(size_t bytes) override {
    c10::DataPtr memory = c10::GetCPUAllocator()->allocate(bytes);
    if (bytes > 0) std::memset(memory.get(), 0xff, bytes);
    return make_block(std::move(memory), bytes);
  }
  c10::DeleterFnPtr raw_deleter() const override { return nullptr; }
  void copy_data(void* to, const void* from, size_t bytes) const override {
    std::memcpy(to, from, bytes);
  }
};

/// First and end address of each pinned block.
struct PinnedBlocks {
  std::mutex mutex;
  std::map<const char*, const char*> ends;
};
PinnedBlocks& pinned_blocks() {
  static auto* const blocks = new PinnedBlocks;
  return *blocks;
}

void unpin(void* owner) {
  const std::unique_ptr<c10::DataPtr> memory(static_cast<c10::DataPtr*>(owner));
  const std::scoped_lock lock(pinned_blocks().mutex);
  pinned_blocks().ends.erase(static_cast<const char*>(memory->get()));
}

class HostAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(size_t bytes) override {
    auto memory = std::make_unique<c10::DataPtr>(c10::GetCPUAllocator()->allocate(bytes));
    auto* data = static_cast<char*>(memory->get());
    const std::scoped_lock lock(pinned_blocks().mutex);
    pinned_blocks().ends[data] = data + bytes;
    return {data, memory.release(), &unpin, c10::kCPU};
  }
  c10::DeleterFnPtr raw_deleter() const override { return nullptr; }
  void copy_data(void* to, const void* from, size_t bytes) const override {
    std::memcpy(to, from, bytes);
  }
};

}  // namespace

c10::Allocator& gpu_allocator() {
  static auto* const allocator = new GpuAllocator;
  return *allocator;
}

c10::Allocator& host_allocator() {
  static auto* const allocator = new HostAllocator;
  return *allocator;
}

bool is_pinned(const void* data) {
  PinnedBlocks& blocks = pinned_blocks();
  const std::scoped_lock lock(blocks.mutex);
  auto block = blocks.ends.upper_bound(static_cast<const char*>(data));
  return block != blocks.ends.begin() && data < (--block)->second;
}

c10::Storage to_gpu(c10::Storage made) {
  const size_t bytes = made.nbytes();
  void* data = made.mutable_data();
  auto owner = std::make_unique<c10::Storage>(std::move(made));
  c10::DataPtr memory(
      data, owner.release(), [](void* storage) { delete static_cast<c10::Storage*>(storage); },
      c10::kCPU);
  return {c10::Storage::use_byte_size_t(), bytes, make_block(std::move(memory), bytes),
          &gpu_allocator(), /*resizable=*/true};
}

Block& block_of(const at::Tensor& tensor) {
  auto* block = tensor.storage().data_ptr().cast_context<Block>(&delete_block);
  TORCH_INTERNAL_ASSERT(block != nullptr, "no memory of the fake GPU");
  return *block;
}

int64_t held_bytes() { return held; }
int64_t most_held_bytes() { return most_held; }

at::Tensor alias_on_cpu(const at::Tensor& tensor) {
  if (!tensor.defined() || tensor.is_cpu()) return tensor;
  const c10::Storage& storage = tensor.storage();
  c10::Storage alias(c10::Storage::use_byte_size_t(), storage.nbytes(),
                     c10::DataPtr(storage.mutable_data(), c10::kCPU), c10::GetCPUAllocator(),
                     /*resizable=*/true);
  auto made = at::detail::make_tensor<c10::TensorImpl>(
      std::move(alias), c10::DispatchKeySet(c10::DispatchKey::CPU), tensor.dtype());
  made.unsafeGetTensorImpl()->set_sizes_and_strides(tensor.sizes(), tensor.strides(),
                                                    tensor.storage_offset());
  return made;
}

Operation::Operation(std::string name, c10::DeviceIndex device)
    : Operation(std::move(name), current_stream(device)) {}

Operation::Operation(std::string name, StreamName stream)
    : name_(std::move(name)), stream_(stream), count_(Order::get().enqueue(stream)) {}

Access Operation::access_to(const at::Tensor& tensor) const {
  return {
      stream_, count_, name_,
      fmt::format("[{}] {}", fmt::join(tensor.sizes(), ", "), at::toString(tensor.scalar_type()))};
}

void Operation::reads(const at::Tensor& tensor) const {
  if (tensor.is_cuda()) Order::get().read(block_of(tensor).history, access_to(tensor));
}

void Operation::writes(const at::Tensor& tensor) const {
  if (tensor.is_cuda()) Order::get().write(block_of(tensor).history, access_to(tensor));
}

void Operation::synchronize() const { Order::get().synchronize(stream_); }

}  // namespace dotresize::fake_device
