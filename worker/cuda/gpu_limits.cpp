#include "worker/cuda/gpu_limits.h"

namespace dotresize {
namespace {

/// Float32 additions that a multiprocessor completes in a cycle: CUDA C++ Programming Guide,
/// "Throughput of Native Arithmetic Instructions".
double float32_additions(int capability) { return capability <= 80 ? 64.0 : 128.0; }

/// Float16 additions in a cycle; an HADD2 counts as two.
double float16_additions(int capability) {
  const bool data_centre = capability == 80 || capability == 90 || capability / 10 == 10;
  return data_centre ? 256.0 : 128.0;
}

}  // namespace

double l1_cost_limit(const GpuInfo& gpu, at::ScalarType dtype) {
  constexpr double kAdditionsOfAPair = 2.0;
  const double additions =
      dtype == at::kHalf ? float16_additions(gpu.capability) : float32_additions(gpu.capability);
  return gpu.multiprocessors * gpu.clock_hz * additions / kAdditionsOfAPair;
}

}  // namespace dotresize
