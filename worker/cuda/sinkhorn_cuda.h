#pragma once

#include "worker/kernels/sinkhorn.h"

namespace dotresize {

/// sinkhorn (worker/kernels/sinkhorn.h) on the GPU of the cost, where the plan stays. The kernel
/// matrix is read once per iteration if the plan has at most kMaxSinkhornColumns columns, twice
/// beyond. The same result in every run on one kind of GPU.
SinkhornResult sinkhorn_cuda(const at::Tensor& cost, const SinkhornOptions& options);

}  // namespace dotresize
