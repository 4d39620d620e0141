#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace dotresize {

struct RemovalState;
struct RemovalSteps;
struct SinkhornOptions;
struct SinkhornResult;

/// Functions behind add_l1_cost, add_half_l1_cost, mirror_upper_triangle, sinkhorn and
/// removal_steps for tensors on a GPU. They are in their own module (worker/cuda/cuda_module.h),
/// because a program linked to CUDA's libraries starts a second later.
struct CudaKernels {
  void (*add_l1_cost)(const at::Tensor& x, at::Tensor& cost) = nullptr;
  void (*add_half_l1_cost)(const at::Tensor& x, double unit, at::Tensor& cost) = nullptr;
  void (*mirror_upper_triangle)(at::Tensor& matrix) = nullptr;
  SinkhornResult (*sinkhorn)(const at::Tensor& cost, const SinkhornOptions& options) = nullptr;
  RemovalSteps (*removal_steps)(RemovalState& state, int64_t count) = nullptr;
};

/// Sets this process's kernels, before the first tensor is on a GPU. Not thread-safe.
void set_cuda_kernels(const CudaKernels& kernels);

/// Returns this process's kernels. Throws std::logic_error if none are set.
const CudaKernels& cuda_kernels();

}  // namespace dotresize
