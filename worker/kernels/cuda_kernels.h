#pragma once

#include <ATen/core/Tensor.h>

#include <stdexcept>

#include "worker/kernels/sinkhorn.h"

namespace dotresize {

/// Functions behind add_l1_cost, add_half_l1_cost, mirror_upper_triangle and sinkhorn for tensors
/// on a GPU. They are in their own module (worker/cuda/cuda_module.h), because a program linked to
/// CUDA's libraries starts a second later.
struct CudaKernels {
  void (*add_l1_cost)(const at::Tensor& x, at::Tensor& cost) = nullptr;
  void (*add_half_l1_cost)(const at::Tensor& x, double unit, at::Tensor& cost) = nullptr;
  void (*mirror_upper_triangle)(at::Tensor& matrix) = nullptr;
  SinkhornResult (*sinkhorn)(const at::Tensor& cost, const SinkhornOptions& options) = nullptr;
};

/// This process's kernels. Set once, before the first tensor is on a GPU.
inline CudaKernels kernels_of_process;

/// Throws std::logic_error if no kernels are set.
inline const CudaKernels& cuda_kernels() {
  if (kernels_of_process.add_l1_cost == nullptr) {
    throw std::logic_error("a tensor is on a GPU, but the CUDA module was not opened");
  }
  return kernels_of_process;
}

}  // namespace dotresize
