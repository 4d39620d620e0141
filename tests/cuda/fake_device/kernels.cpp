#include "tests/cuda/fake_device/kernels.h"

#include <mutex>

#include "tests/cuda/emulation/l1_cost_on_cpu.h"
#include "tests/cuda/fake_device/memory.h"
#include "worker/kernels/l1_cost.h"
#include "worker/kernels/removal_steps.h"
#include "worker/kernels/sinkhorn.h"

namespace dotresize::fake_device {
namespace {

/// Serialises kernels: the emulator runs one at a time.
std::mutex emulator;

void add_cost(const at::Tensor& x, at::Tensor& cost) {
  const Operation operation("l1_cost_float", x.get_device());
  operation.reads(x);
  operation.writes(cost);
  at::Tensor sums = alias_on_cpu(cost);
  const std::scoped_lock lock(emulator);
  emulated_l1_cost(alias_on_cpu(x), sums);
}

void add_half_cost(const at::Tensor& x, double unit, at::Tensor& cost) {
  const Operation operation("l1_cost_half", x.get_device());
  operation.reads(x);
  operation.writes(cost);
  at::Tensor sums = alias_on_cpu(cost);
  const std::scoped_lock lock(emulator);
  emulated_half_l1_cost(alias_on_cpu(x), unit, sums);
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

RemovalSteps removal_steps_on_cpu(RemovalState& state, int64_t count) {
  const at::Device device = state.inverse.device();
  const Operation operation("removal_step", device.index());
  for (const at::Tensor& read : {state.inverse, state.products}) operation.reads(read);
  for (const at::Tensor& written : {state.squares, state.diagonal}) operation.writes(written);
  RemovalState on_cpu{alias_on_cpu(state.inverse), alias_on_cpu(state.products),
                      alias_on_cpu(state.squares), alias_on_cpu(state.diagonal)};
  const RemovalSteps steps = removal_steps(on_cpu, count);
  return {steps.rows.to(device), steps.changes.to(device), steps.costs.to(device),
          steps.removed.to(device)};
}

}  // namespace

CudaKernels kernels() {
  return {&add_cost, &add_half_cost, &mirror, &sinkhorn_on_cpu, &removal_steps_on_cpu};
}

}  // namespace dotresize::fake_device
