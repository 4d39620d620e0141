#include "worker/cuda/cuda_module.h"

#include <ATen/ATen.h>
#include <ATen/Context.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include <cstddef>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>

#include "base/text/encodings.h"
#include "worker/cuda/gpu_program.h"
#include "worker/cuda/nccl_communicator.h"
#include "worker/cuda/nvrtc.h"

namespace dotresize {
namespace {

/// A moment of a CUDA stream. If CUDA fails, phases take no time until the next use of the device
/// ends the job.
class StreamMoment final : public DeviceMoment {
 public:
  explicit StreamMoment(cudaStream_t stream) noexcept {
    if (cudaEventCreate(&event_) != cudaSuccess) event_ = nullptr;
    if (event_ != nullptr) cudaEventRecord(event_, stream);
  }
  ~StreamMoment() override {
    if (event_ != nullptr) cudaEventDestroy(event_);
  }
  bool passed() const noexcept override {
    if (event_ == nullptr || cudaEventQuery(event_) != cudaErrorNotReady) return true;
    cudaGetLastError();  // otherwise the next check of a launch would find "not ready"
    return false;
  }
  void wait() const noexcept override {
    if (event_ != nullptr) cudaEventSynchronize(event_);
  }
  double seconds_since(const DeviceMoment& earlier) const noexcept override {
    const cudaEvent_t before = static_cast<const StreamMoment&>(earlier).event_;
    float milliseconds = 0.0F;
    if (event_ == nullptr || before == nullptr) return 0.0;
    if (cudaEventElapsedTime(&milliseconds, before, event_) != cudaSuccess) return 0.0;
    return milliseconds / 1e3;
  }

 private:
  cudaEvent_t event_ = nullptr;
};

class Module final : public CudaModule {
 public:
  int device_count() const override { return c10::cuda::device_count(); }

  GpuInfo info(int device) const override {
    cudaDeviceProp properties{};
    check_cuda(cudaGetDeviceProperties(&properties, device), "properties of the GPU");
    int kilohertz = 0;  // CUDA 13 has removed it from the properties
    check_cuda(cudaDeviceGetAttribute(&kilohertz, cudaDevAttrClockRate, device),
               "clock of the GPU");
    return {properties.name, hex_digits({properties.uuid.bytes, sizeof(properties.uuid.bytes)}),
            10 * properties.major + properties.minor, properties.multiProcessorCount,
            1e3 * kilohertz};
  }

  CudaKernels kernels() const override {
    return {&add_l1_cost_cuda, &mirror_upper_triangle_cuda, &sinkhorn_cuda, &removal_steps_cuda};
  }

  std::string libtorch_flags() const override { return DOTRESIZE_LIBTORCH_FLAGS; }

  void try_out(int device) const override {
    CubinCache{default_cubin_directory()}.get(l1_cost_program(),
                                              architecture_for(info(device).capability));
    constexpr int64_t kNumbers = 1000;
    at::globalContext().lazyInitDevice(at::kCUDA);
    const at::Device gpu(at::kCUDA, static_cast<c10::DeviceIndex>(device));
    const c10::cuda::CUDAGuard guard(gpu);
    const auto sum = at::ones({kNumbers}, at::dtype(at::kLong).device(gpu)).sum().item<int64_t>();
    if (sum == kNumbers) return;
    throw std::runtime_error("the GPU computes " + std::to_string(sum) + " in place of " +
                             std::to_string(kNumbers));
  }

  void use(int device) override {
    at::globalContext().lazyInitDevice(at::kCUDA);
    c10::cuda::set_device(static_cast<c10::DeviceIndex>(device));
    at::globalContext().setFloat32MatmulPrecision("highest");
    at::globalContext().setAllowFP16ReductionCuBLAS(false);
    at::globalContext().setAllowBF16ReductionCuBLAS(false);
    // Their gradients differ from run to run. On a V100 there is neither.
    at::globalContext().setSDPUseCuDNN(false);
    at::globalContext().setSDPUseFlash(false);
  }

  void synchronize() const noexcept override {
    cudaStreamSynchronize(c10::cuda::getCurrentCUDAStream());
  }

  std::shared_ptr<DeviceMoment> mark() const noexcept override {
    return std::make_shared<StreamMoment>(c10::cuda::getCurrentCUDAStream());
  }

  DeviceMemory memory() const override {
    size_t free = 0;
    size_t total = 0;
    check_cuda(cudaMemGetInfo(&free, &total), "memory of the GPU");
    constexpr auto kAggregate = static_cast<size_t>(c10::CachingAllocator::StatType::AGGREGATE);
    const c10::CachingDeviceAllocator::DeviceStats stats =
        c10::cuda::CUDACachingAllocator::getDeviceStats(c10::cuda::current_device());
    const int64_t outside_pytorch =
        static_cast<int64_t>(total - free) - stats.reserved_bytes[kAggregate].current;
    return {static_cast<int64_t>(free), stats.reserved_bytes[kAggregate].peak + outside_pytorch,
            stats.allocated_bytes[kAggregate].peak + outside_pytorch};
  }

  std::unique_ptr<Communicator> make_communicator(Communicator& host,
                                                  WaitLimit limit) const override {
    return std::make_unique<NcclCommunicator>(host, std::move(limit));
  }
};

}  // namespace
}  // namespace dotresize

/// Entry point for open_cuda_module().
extern "C" dotresize::CudaModule* dotresize_cuda_module();
dotresize::CudaModule* dotresize_cuda_module() {
  static dotresize::Module module;
  return &module;
}
