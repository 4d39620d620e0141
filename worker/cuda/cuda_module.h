#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/phase_clock.h"
#include "worker/comm/communicator.h"
#include "worker/kernels/cuda_kernels.h"

namespace dotresize {

// Facts of GPUs. None of these functions needs the module.

struct GpuInfo {
  std::string name;    ///< such as "NVIDIA H100 80GB HBM3"
  std::string uuid;    ///< 32 hexadecimal digits, unique to this GPU
  int capability = 0;  ///< 90 for sm_90
  int multiprocessors = 0;
  double clock_hz = 0.0;  ///< highest clock rate
};

/// Returns the upper limit in pairs a second of the l1 kernel (worker/cuda/l1_cost.cu) on a GPU at
/// its highest clock: one instruction a pair, in every lane and cycle.
double l1_cost_limit(const GpuInfo& gpu);

/// A GPU as described by the driver.
struct DriverGpu {
  std::string name;          ///< "Tesla V100-SXM2-32GB"
  int capability = 0;        ///< 70 for sm_70
  int64_t memory_bytes = 0;  ///< total
};

/// NVIDIA's driver on this machine.
struct Driver {
  bool found = false;    ///< libcuda.so.1 can be opened
  std::string fault;     ///< why this process can use no GPU; empty if it can
  int cuda_version = 0;  ///< newest supported CUDA, 12080 for 12.8; 0 if the driver does not start
  std::vector<DriverGpu> gpus;  ///< GPUs visible under CUDA_VISIBLE_DEVICES
};

/// Queries the driver alone, without CUDA's other libraries. Takes milliseconds without a driver.
Driver ask_driver();

/// Memory of a GPU in bytes.
struct DeviceMemory {
  int64_t free = 0;
  /// Peak memory of this process: the peak that PyTorch's allocator reserved, plus the memory taken
  /// now outside of it (CUDA context, kernels, NCCL; also memory of other processes).
  int64_t peak = 0;
  /// Version of `peak` with the tensors' peak in place of the reserved memory: the need of the
  /// process, which the plan states. The allocator keeps freed blocks for later tensors with the
  /// same size, and returns them when memory runs out.
  int64_t peak_allocated = 0;
};

/// The parts of the worker that need CUDA's libraries: libdotresize_cuda.so. A worker opens it only
/// if it computes on a GPU, because the libraries take most of a worker's start time.
class CudaModule {
 public:
  virtual ~CudaModule() = default;

  /// Number of GPUs that this process may use (CUDA_VISIBLE_DEVICES).
  virtual int device_count() const = 0;
  virtual GpuInfo info(int device) const = 0;
  virtual CudaKernels kernels() const = 0;
  /// Returns the nvcc flags that this build's libtorch kernels were compiled with (see gpu_code).
  virtual std::string libtorch_flags() const = 0;
  /// Compiles the l1 cost kernels for the device into the cache on disk, so that a GPU that NVRTC
  /// does not support is found before any work, and adds numbers there with a libtorch kernel.
  /// Throws std::runtime_error if the sum is wrong, or with the compiler's or CUDA's error text.
  virtual void try_out(int device) const = 0;
  /// Sets the calling thread's device. Disables products in TF32, 16-bit accumulation, and
  /// attention whose results differ from run to run.
  virtual void use(int device) = 0;
  /// Waits for the work on PyTorch's current stream, but not for transfers in flight. Errors are
  /// reported by the next use of the device.
  virtual void synchronize() const noexcept = 0;
  /// Records a moment of PyTorch's current stream, which passes when all work queued so far is
  /// done.
  virtual std::shared_ptr<DeviceMoment> mark() const noexcept = 0;
  /// Memory of the thread's device.
  virtual DeviceMemory memory() const = 0;
  /// Creates NCCL between the ranks of `host`, each of which has set its own GPU by use(). Tensors
  /// on the CPU go through `host`. `host` and the objects that `limit` refers to must outlive the
  /// result. Collective.
  virtual std::unique_ptr<Communicator> make_communicator(Communicator& host,
                                                          WaitLimit limit) const = 0;
};

/// Returns the path of the module: beside the program, in ../lib, or from DOTRESIZE_CUDA_MODULE.
std::filesystem::path cuda_module_path();

/// Opens the module, once per process, and sets its kernels. Call before anything else that asks
/// libtorch for CUDA. Throws std::runtime_error with the reason if it is missing or cannot be
/// loaded.
CudaModule& open_cuda_module();

}  // namespace dotresize
