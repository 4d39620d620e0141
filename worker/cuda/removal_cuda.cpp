#include <ATen/ATen.h>
#include <ATen/ceil_div.h>
#include <c10/cuda/CUDAGuard.h>

#include <utility>

#include "worker/cuda/gpu_program.h"

namespace dotresize {
namespace {

// Constants of removal.cu.
constexpr int64_t kThreads = 128;
constexpr int64_t kNumbersOfACandidate = 3;

}  // namespace

RemovalSteps removal_steps_cuda(RemovalState& state, int64_t count) {
  const c10::cuda::CUDAGuard guard(state.inverse.device());
  const int64_t n = state.inverse.size(0);
  // A symmetric matrix by columns is the same by rows.
  const auto has_no_gaps = [](const at::Tensor& matrix) {
    return matrix.is_contiguous() || matrix.t().is_contiguous();
  };
  TORCH_CHECK(has_no_gaps(state.inverse) && has_no_gaps(state.products) &&
                  state.squares.is_contiguous() && state.diagonal.is_contiguous(),
              "steps of a removal: the state must be contiguous");
  const GpuProgram& program = loaded_program(removal_program(), state.inverse.get_device());
  const GpuKernel step_kernel = program.kernel("removal_step");
  const at::TensorOptions options = state.inverse.options();
  const RemovalSteps steps{at::empty({count, n}, options), at::empty({count, n}, options),
                           at::empty({count}, options),
                           at::empty({count}, options.dtype(at::kLong))};
  const auto blocks = static_cast<unsigned int>(at::ceil_div(n, kThreads));
  at::Tensor candidates = at::empty({blocks, kNumbersOfACandidate}, options);
  at::Tensor next = at::empty_like(candidates);
  program.kernel("removal_candidates")
      .launch(blocks, kThreads, state.squares.const_data_ptr<double>(),
              state.diagonal.const_data_ptr<double>(), candidates.data_ptr<double>(),
              static_cast<int>(n));
  for (int64_t step = 0; step < count; ++step) {
    step_kernel.launch(blocks, kThreads, state.inverse.const_data_ptr<double>(),
                       state.products.const_data_ptr<double>(), state.squares.data_ptr<double>(),
                       state.diagonal.data_ptr<double>(), steps.rows.data_ptr<double>(),
                       steps.changes.data_ptr<double>(), steps.costs.data_ptr<double>(),
                       reinterpret_cast<long long*>(steps.removed.data_ptr<int64_t>()),
                       candidates.const_data_ptr<double>(), next.data_ptr<double>(),
                       static_cast<int>(n), static_cast<int>(step));
    std::swap(candidates, next);
  }
  return steps;
}

}  // namespace dotresize
