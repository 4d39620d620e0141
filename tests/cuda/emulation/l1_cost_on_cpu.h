#pragma once

#include <ATen/core/Tensor.h>

namespace dotresize {

// Runs worker/cuda/l1_cost.cu on the CPU (cuda_emulation.h), with the arguments of CudaKernels.

/// x: [n, d] float32.
void emulated_l1_cost(const at::Tensor& x, at::Tensor& cost);
void emulated_mirror(at::Tensor& matrix);

}  // namespace dotresize
