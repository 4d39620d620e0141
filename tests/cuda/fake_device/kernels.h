#pragma once

#include "worker/kernels/cuda_kernels.h"

namespace dotresize::fake_device {

/// Kernels for tensors on the fake GPU: l1_cost.cu thread by thread (emulation/) for the costs, the
/// CPU's code for the rest.
CudaKernels kernels();

}  // namespace dotresize::fake_device
