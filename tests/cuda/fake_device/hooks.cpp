// The services that ATen needs from CUDA besides operators: availability and pinned memory.
#include <ATen/detail/CUDAHooksInterface.h>

#include "tests/cuda/fake_device/memory.h"
#include "tests/cuda/fake_device/streams.h"

namespace dotresize::fake_device {
namespace {

class FakeHooks final : public at::CUDAHooksInterface {
 public:
  explicit FakeHooks(at::CUDAHooksArgs) {}
  void init() const override {}
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  bool hasCUDA() const override { return true; }
  bool hasPrimaryContext(c10::DeviceIndex) const override { return true; }
  int getNumGPUs() const override { return kDevices; }
  c10::DeviceIndex deviceCount() const override { return kDevices; }
  c10::DeviceIndex current_device() const override { return fake_device::current_device(); }
  c10::DeviceIndex getCurrentDevice() const override { return fake_device::current_device(); }
  bool isPinnedPtr(const void* data) const override { return is_pinned(data); }
  at::Allocator* getPinnedMemoryAllocator() const override { return &host_allocator(); }
  at::Allocator* getCUDADeviceAllocator() const override { return &gpu_allocator(); }
};

using at::CUDAHooksRegistry;
using at::RegistererCUDAHooksRegistry;
C10_REGISTER_CLASS(CUDAHooksRegistry, CUDAHooks, FakeHooks)

}  // namespace
}  // namespace dotresize::fake_device
