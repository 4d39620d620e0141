#pragma once

#include <cstdint>

#include "worker/cuda/nvrtc.h"

namespace dotresize {

/// The kernels of the l1 cost: l1_cost_float, l1_cost_half, mirror_upper_triangle.
CudaProgram l1_cost_program();

/// The most columns of a plan that the Sinkhorn kernels serve.
inline constexpr int64_t kMaxSinkhornColumns = 8192;

/// The kernels of a Sinkhorn iteration on `columns` columns: sinkhorn_rows, sinkhorn_columns.
CudaProgram sinkhorn_program(int64_t columns);

}  // namespace dotresize
