// CUDA module (worker/cuda/cuda_module.h) of a machine with fake GPUs. DOTRESIZE_CUDA_MODULE names
// it to a worker, which is otherwise a real one.
#include <ATen/Context.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <fmt/format.h>

#include <chrono>
#include <memory>

#include "tests/cuda/fake_device/communicator.h"
#include "tests/cuda/fake_device/kernels.h"
#include "tests/cuda/fake_device/memory.h"
#include "tests/cuda/fake_device/streams.h"
#include "worker/cuda/cuda_module.h"

namespace dotresize::fake_device {
namespace {

constexpr int64_t kMemoryBytes = int64_t{32} << 30;

/// Fake operations complete immediately.
class HostMoment final : public DeviceMoment {
 public:
  bool passed() const noexcept override { return true; }
  void wait() const noexcept override {}
  double seconds_since(const DeviceMoment& earlier) const noexcept override {
    const auto before = static_cast<const HostMoment&>(earlier).time_;
    return std::chrono::duration<double>(time_ - before).count();
  }

 private:
  std::chrono::steady_clock::time_point time_ = std::chrono::steady_clock::now();
};

class Module final : public CudaModule {
 public:
  int device_count() const override { return kDevices; }
  GpuInfo info(int device) const override {
    return {"fake GPU", fmt::format("{:032x}", device), 70, 80, 1e9};
  }
  CudaKernels kernels() const override { return fake_device::kernels(); }
  std::string libtorch_flags() const override { return "-gencode;arch=compute_70,code=sm_70"; }
  void try_out(int) const override {}
  void use(int device) override {
    at::globalContext().lazyInitDevice(at::kCUDA);
    const c10::impl::VirtualGuardImpl guard(at::kCUDA);
    guard.setDevice({at::kCUDA, static_cast<c10::DeviceIndex>(device)});
  }
  void synchronize() const noexcept override {
    Order::get().synchronize(current_stream(current_device()));
  }
  std::shared_ptr<DeviceMoment> mark() const noexcept override {
    return std::make_shared<HostMoment>();
  }
  DeviceMemory memory() const override {
    return {kMemoryBytes - held_bytes(), most_held_bytes(), most_held_bytes()};
  }
  std::unique_ptr<Communicator> make_communicator(Communicator& host,
                                                  WaitLimit limit) const override {
    return std::make_unique<FakeNccl>(host, limit);
  }
};

}  // namespace
}  // namespace dotresize::fake_device

extern "C" dotresize::CudaModule* dotresize_cuda_module();
dotresize::CudaModule* dotresize_cuda_module() {
  static dotresize::fake_device::Module module;
  return &module;
}
