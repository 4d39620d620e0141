#pragma once

#include <cstdint>
#include <string_view>

#include "worker/cuda/nvrtc.h"

namespace dotresize {

// CUDA C++ sources of the kernels, embedded by the build. See the sources for what they compute.

std::string_view half2_cuh();  ///< half2.cuh, which l1_cost.cu includes
std::string_view l1_cost_cu();
std::string_view sinkhorn_cu();

/// The kernels of the l1 cost: l1_cost_float, l1_cost_half, mirror_upper_triangle.
CudaProgram l1_cost_program();

/// Largest number of a plan's columns that the Sinkhorn kernels support.
inline constexpr int64_t kMaxSinkhornColumns = 8192;

/// The kernels of a Sinkhorn iteration on `columns` columns: sinkhorn_rows, sinkhorn_columns.
CudaProgram sinkhorn_program(int64_t columns);

}  // namespace dotresize
