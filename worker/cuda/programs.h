#pragma once

#include <cstdint>
#include <string_view>

#include "worker/cuda/nvrtc.h"

namespace dotresize {

// The CUDA C++ of the kernels, embedded by the build. What they compute, and how, is said there.

std::string_view half2_cuh();    ///< half2.cuh, which l1_cost.cu includes
std::string_view l1_cost_cu();   ///< l1_cost.cu
std::string_view sinkhorn_cu();  ///< sinkhorn.cu

/// The kernels of the l1 cost: l1_cost_float, l1_cost_half, mirror_upper_triangle.
CudaProgram l1_cost_program();

/// The most columns of a plan that the Sinkhorn kernels serve.
inline constexpr int64_t kMaxSinkhornColumns = 8192;

/// The kernels of a Sinkhorn iteration on `columns` columns: sinkhorn_rows, sinkhorn_columns.
CudaProgram sinkhorn_program(int64_t columns);

}  // namespace dotresize
