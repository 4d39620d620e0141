#pragma once

#include "worker/kernels/sinkhorn.h"

namespace dotresize {

/// GPU version of sinkhorn (worker/kernels/sinkhorn.h), on the GPU of the cost, where the plan
/// stays. Reads the kernel matrix once per iteration if the plan has at most kMaxSinkhornColumns
/// columns, otherwise twice. The result is the same in every run on one kind of GPU.
SinkhornResult sinkhorn_cuda(const at::Tensor& cost, const SinkhornOptions& options);

}  // namespace dotresize
