#pragma once

#include <ATen/core/Tensor.h>

#include "worker/kernels/sinkhorn.h"

namespace dotresize {

/// What add_l1_cost, add_half_l1_cost, mirror_upper_triangle and sinkhorn call for tensors on a
/// GPU. The functions are in a module of their own (worker/cuda/cuda_module.h), since whatever
/// links CUDA's libraries starts a second later.
struct CudaKernels {
  void (*add_l1_cost)(const at::Tensor& x, at::Tensor& cost) = nullptr;
  void (*add_half_l1_cost)(const at::Tensor& x, double unit, at::Tensor& cost) = nullptr;
  void (*mirror_upper_triangle)(at::Tensor& matrix) = nullptr;
  SinkhornResult (*sinkhorn)(const at::Tensor& cost, const SinkhornOptions& options) = nullptr;
};

/// Of this process. Once, before the first tensor is on a GPU.
void set_cuda_kernels(const CudaKernels& kernels);
/// Throws std::logic_error if none are set.
const CudaKernels& cuda_kernels();

}  // namespace dotresize
