#pragma once

#include <c10/core/ScalarType.h>

#include "worker/cuda/cuda_module.h"

namespace dotresize {

/// Returns the upper limit in pairs a second of the l1 kernels (worker/cuda/l1_cost.cu) on a GPU at
/// its highest clock: a subtraction and an addition a pair, in every lane and cycle. dtype: of the
/// differences, float32 or float16. An unknown architecture counts as the newest one.
double l1_cost_limit(const GpuInfo& gpu, at::ScalarType dtype);

}  // namespace dotresize
