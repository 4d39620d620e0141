#pragma once

#include "worker/kernels/cuda_kernels.h"

namespace dotresize::fake_device {

/// For tensors on the fake GPU: the costs of l1_cost.cu thread by thread (emulation/), the CPU's
/// code for the rest.
CudaKernels kernels();

}  // namespace dotresize::fake_device
