#pragma once

#include "worker/kernels/cuda_kernels.h"

namespace dotresize::fake_device {

/// For tensors on the fake GPU: l1_cost.cu thread by thread (emulation/), and the CPU's Sinkhorn.
CudaKernels kernels();

}  // namespace dotresize::fake_device
