#pragma once

#include <string_view>

namespace dotresize {

// The CUDA C++ of the kernels, embedded by the build. What they compute, and how, is said there.

std::string_view half2_cuh();    ///< half2.cuh, which l1_cost.cu includes
std::string_view l1_cost_cu();   ///< l1_cost.cu
std::string_view sinkhorn_cu();  ///< sinkhorn.cu

}  // namespace dotresize
