#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

#include "base/phase_clock.h"
#include "worker/comm/communicator.h"
#include "worker/kernels/cuda_kernels.h"

namespace dotresize {

struct GpuInfo {
  std::string name;    ///< "NVIDIA H100 80GB HBM3"
  std::string uuid;    ///< 32 hexadecimal digits, of this GPU only
  int capability = 0;  ///< 90 for sm_90
  int multiprocessors = 0;
  double clock_hz = 0.0;  ///< the highest
};

/// All of the worker that needs CUDA's libraries: libdotresize_cuda.so. A worker opens it if it
/// computes on a GPU; others start in a fifth of the time without it.
class CudaModule {
 public:
  virtual ~CudaModule() = default;

  /// GPUs that this process may use (CUDA_VISIBLE_DEVICES).
  virtual int device_count() const = 0;
  virtual GpuInfo info(int device) const = 0;
  virtual CudaKernels kernels() const = 0;
  /// The flags of nvcc that the kernels of this build's libtorch were compiled with (gpu_code).
  virtual std::string libtorch_flags() const = 0;
  /// Compiles the kernels of the l1 cost for such a GPU into the cache on disk, so that one that
  /// NVRTC cannot serve is found before any work. Throws std::runtime_error.
  virtual void compile_kernels(int capability) const = 0;
  /// Adds up numbers there with a kernel of libtorch. Throws std::runtime_error if they are wrong,
  /// or with what CUDA says.
  virtual void try_out(int device) const = 0;
  /// Makes the device the calling thread's, and forbids products in TF32 and sums of products in
  /// 16 bits.
  virtual void use(int device) = 0;
  /// Waits for the work on PyTorch's current stream, not for transfers in flight. What failed is
  /// reported by the next use of the device.
  virtual void synchronize() const noexcept = 0;
  /// A moment of PyTorch's current stream: all of its work until now is done.
  virtual std::shared_ptr<DeviceMoment> mark() const noexcept = 0;
  /// Free bytes of the thread's device.
  virtual int64_t free_memory_bytes() const = 0;
  /// The most memory of the thread's device, in bytes, that this process has held at once: what
  /// PyTorch's allocator has reserved at its peak, and beside it what is taken now without it (the
  /// CUDA context, kernels, NCCL; what other processes have there, too).
  virtual int64_t peak_memory_bytes() const = 0;
  /// Likewise, with what tensors have held at once in place of what the allocator has reserved for
  /// them: what the process needs, and what the plan states. The allocator keeps freed blocks for
  /// later tensors of their size, and gives them back where memory ends.
  virtual int64_t peak_allocated_bytes() const = 0;
  /// NCCL between the ranks of `host`, each of which has made a GPU of its own the thread's.
  /// Collective. Tensors on the CPU go through `host`, which outlives the result, as does what
  /// `limit` refers to.
  virtual std::unique_ptr<Communicator> make_communicator(Communicator& host,
                                                          WaitLimit limit) const = 0;
};

/// The path of the module: beside the program, in ../lib, or in DOTRESIZE_CUDA_MODULE.
std::filesystem::path cuda_module_path();

/// Opens the module, once in a process, and sets its kernels. Before anything else that asks
/// libtorch for CUDA. Throws std::runtime_error with the reason if it is missing or cannot be
/// loaded.
CudaModule& open_cuda_module();

/// Why this process can use no GPU, asked of the driver only: "no NVIDIA driver (libcuda.so.1)",
/// or empty if there is one. Takes milliseconds if there is none.
std::string why_no_gpu();

}  // namespace dotresize
