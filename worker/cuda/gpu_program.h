#pragma once

#include <cuda_runtime_api.h>

#include <string>

#include "worker/cuda/nvrtc.h"

namespace dotresize {

/// Throws std::runtime_error with `what` and the CUDA runtime's text, unless `result` is success.
void check_cuda(cudaError_t result, const std::string& what);

/// A kernel of a GpuProgram. Valid while the program lives.
class GpuKernel {
 public:
  GpuKernel(cudaKernel_t kernel, std::string name) : kernel_(kernel), name_(std::move(name)) {}

  /// Launches on PyTorch's current stream of the current device. The arguments must have exactly
  /// the kernel's parameter types. Throws std::runtime_error naming the kernel.
  template <typename... Arguments>
  void launch(dim3 grid, dim3 block, Arguments... arguments) const {
    void* pointers[] = {&arguments...};
    launch_with(grid, block, pointers);
  }

 private:
  void launch_with(dim3 grid, dim3 block, void** arguments) const;

  cudaKernel_t kernel_;
  std::string name_;
};

/// A program on the GPU; the destructor unloads it. Throws std::runtime_error with the program's
/// name and architecture.
class GpuProgram {
 public:
  GpuProgram(const CudaProgram& program, int capability);
  ~GpuProgram();
  GpuProgram(const GpuProgram&) = delete;
  GpuProgram& operator=(const GpuProgram&) = delete;

  GpuKernel kernel(const std::string& name) const;

 private:
  std::string name_;
  cudaLibrary_t library_ = nullptr;
};

/// Returns the program, compiled with architecture_for() the device. It is loaded at its first use
/// and stays for the life of the process. Thread-safe. Throws as GpuProgram does.
const GpuProgram& loaded_program(const CudaProgram& program, int device);

}  // namespace dotresize
