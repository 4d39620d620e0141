#include "tests/cuda/fake_device/kernels.h"

#include <mutex>

#include "tests/cuda/emulation/l1_cost_on_cpu.h"
#include "tests/cuda/fake_device/memory.h"
#include "worker/kernels/l1_cost.h"
#include "worker/kernels/sinkhorn.h"

namespace dotresize::fake_device {
namespace {

/// Serialises kernels: the emulator runs one at a time.
std::mutex emulator;

void add_cost(const at::Tensor& x, at::Tensor& cost) {
  const Operation operation("l1_cost", x.get_device());
  operation.reads(x);
  operation.writes(cost);
  at::Tensor sums = alias_on_cpu(cost);
  const std::scoped_lock lock(emulator);
  emulated_l1_cost(alias_on_cpu(x), sums);
}

void mirror(at::Tensor& matrix) {
  const Operation operation("mirror_upper_triangle", matrix.get_device());
  operation.writes(matrix);
  at::Tensor values = alias_on_cpu(matrix);
  mirror_upper_triangle(values);
}

SinkhornResult sinkhorn_on_cpu(const at::Tensor& cost, const SinkhornOptions& options) {
  const Operation operation("sinkhorn", cost.get_device());
  operation.reads(cost);
  operation.synchronize();
  SinkhornResult result = sinkhorn(alias_on_cpu(cost), options);
  result.plan = result.plan.to(cost.device());
  return result;
}

}  // namespace

CudaKernels kernels() { return {&add_cost, &mirror, &sinkhorn_on_cpu}; }

}  // namespace dotresize::fake_device
