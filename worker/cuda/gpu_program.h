#pragma once

#include <ATen/core/Tensor.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime_api.h>

#include <string>

#include "worker/cuda/nvrtc.h"
#include "worker/kernels/removal_steps.h"
#include "worker/kernels/sinkhorn.h"

namespace dotresize {

/// Throws std::runtime_error with `what` and the CUDA runtime's text, unless `result` is success.
void check_cuda(cudaError_t result, const std::string& what);

/// A kernel of a GpuProgram.
struct GpuKernel {
  /// Launches on PyTorch's current stream of the current device. The arguments must have exactly
  /// the kernel's parameter types. Throws std::runtime_error naming the kernel.
  template <typename... Arguments>
  void launch(dim3 grid, dim3 block, Arguments... arguments) const {
    void* pointers[] = {&arguments...};
    check_cuda(cudaLaunchKernel(reinterpret_cast<const void*>(kernel), grid, block, pointers,
                                /*sharedMem=*/0, c10::cuda::getCurrentCUDAStream()),
               "CUDA kernel " + name);
  }

  cudaKernel_t kernel;
  std::string name;
};

/// A program on the GPU.
struct GpuProgram {
  /// Throws std::runtime_error with the program's name and architecture.
  GpuKernel kernel(const std::string& kernel_name) const;

  std::string name;  ///< with the architecture
  cudaLibrary_t library = nullptr;
};

/// Returns the program, compiled with architecture_for() the device. It is loaded at its first use
/// and stays for the life of the process. Thread-safe. Throws
/// std::runtime_error with the program's name and architecture.
const GpuProgram& loaded_program(const CudaProgram& program, int device);

// Functions of CudaKernels, which launch the programs.

/// GPU version of add_l1_cost (worker/kernels/l1_cost.h), on the GPU of x and PyTorch's current
/// stream. x: [n, d] float32; cost: [d, d] float64; both contiguous. Relative error <= 1e-5 of a
/// float64 sum. The result is the same in every run.
void add_l1_cost_cuda(const at::Tensor& x, at::Tensor& cost);

/// Adds cost[i, j] += unit · Σ_t |x[t, i] − x[t, j]|. x: [n, d] float16 with magnitudes of at most
/// 4094. Relative error <= 9/2048, and far less if the rounding errors of many tokens cancel.
/// `unit`: a power of two. Otherwise as add_l1_cost_cuda.
void add_half_l1_cost_cuda(const at::Tensor& x, double unit, at::Tensor& cost);

/// GPU version of mirror_upper_triangle, on the GPU of the matrix.
void mirror_upper_triangle_cuda(at::Tensor& matrix);

/// GPU version of sinkhorn (worker/kernels/sinkhorn.h), on the GPU of the cost, where the plan
/// stays. Reads the kernel matrix once per iteration if the plan has at most kMaxSinkhornColumns
/// columns, otherwise twice. The result is the same in every run on one kind of GPU.
SinkhornResult sinkhorn_cuda(const at::Tensor& cost, const SinkhornOptions& options);

/// GPU version of removal_steps (worker/kernels/removal_steps.h): a launch for each step. The
/// result is the same in every run.
RemovalSteps removal_steps_cuda(RemovalState& state, int64_t count);

}  // namespace dotresize
