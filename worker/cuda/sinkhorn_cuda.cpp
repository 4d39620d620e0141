#include <ATen/ATen.h>
#include <c10/cuda/CUDAGuard.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "worker/cuda/gpu_program.h"

// The iteration of worker/kernels/sinkhorn.cpp, with both updates in one pass over K. The pass from
// (u, v) to (u', v') also computes K v, and so the violation of the row marginal by (u, v).

namespace dotresize {
namespace {

// Constants of sinkhorn.cu.
constexpr unsigned int kThreads = 512;
constexpr unsigned int kColumnThreads = 128;
constexpr double kMaxScaling = 1e100;

double l1_violation(const at::Tensor& sums, double marginal) {
  return (sums - marginal).abs().sum().item<double>();
}

/// Results of one pass over K.
struct Pass {
  at::Tensor u;                  ///< next iterate
  at::Tensor v;                  ///< next iterate
  double row_violation = 0.0;    ///< current iterate
  bool next_is_in_range = true;  ///< all its scalings are in [1e-100, 1e100]
};

class FusedPass {
 public:
  FusedPass(const at::Tensor& kernel)
      : program_(loaded_program(sinkhorn_program(kernel.size(1)), kernel.get_device())),
        rows_kernel_(program_.kernel("sinkhorn_rows")),
        columns_kernel_(program_.kernel("sinkhorn_columns")),
        rows_(kernel.size(0)),
        columns_(kernel.size(1)) {
    int processors = 0;
    check_cuda(
        cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, kernel.get_device()),
        "multiprocessors of the GPU");
    blocks_ = static_cast<int>(std::min<int64_t>(processors, rows_));
    sums_ = at::empty({blocks_, columns_}, kernel.options());
    violations_ = at::empty({blocks_}, kernel.options());
    status_ = at::empty({2}, kernel.options());
  }

  Pass operator()(const at::Tensor& kernel, const at::Tensor& u, const at::Tensor& v) {
    Pass pass{at::empty_like(u), at::empty_like(v)};
    double* status = status_.zero_().data_ptr<double>();
    rows_kernel_.launch(static_cast<unsigned int>(blocks_), kThreads,
                        kernel.const_data_ptr<double>(), u.const_data_ptr<double>(),
                        v.const_data_ptr<double>(), pass.u.data_ptr<double>(),
                        sums_.data_ptr<double>(), violations_.data_ptr<double>(), status,
                        static_cast<long long>(rows_), static_cast<long long>(columns_),
                        1.0 / static_cast<double>(rows_));
    columns_kernel_.launch(
        static_cast<unsigned int>((columns_ + kColumnThreads - 1) / kColumnThreads), kColumnThreads,
        sums_.const_data_ptr<double>(), violations_.const_data_ptr<double>(),
        pass.v.data_ptr<double>(), status, blocks_, static_cast<long long>(columns_),
        1.0 / static_cast<double>(columns_));
    const at::Tensor found = status_.cpu();
    pass.row_violation = found[0].item<double>();
    pass.next_is_in_range = found[1].item<double>() == 0.0;
    return pass;
  }

 private:
  const GpuProgram& program_;
  GpuKernel rows_kernel_;
  GpuKernel columns_kernel_;
  int64_t rows_;
  int64_t columns_;
  int blocks_ = 0;
  at::Tensor sums_;        // [blocks, k]
  at::Tensor violations_;  // [blocks]
  at::Tensor status_;      // [2]
};

/// Version of the pass by two products, for plans too wide for the kernel.
Pass pass_by_products(const at::Tensor& kernel, const at::Tensor& u, const at::Tensor& v) {
  const double row_marginal = 1.0 / static_cast<double>(kernel.size(0));
  const double column_marginal = 1.0 / static_cast<double>(kernel.size(1));
  const at::Tensor row_sums = at::mv(kernel, v);
  Pass pass;
  pass.u = row_marginal / row_sums;
  pass.v = column_marginal / at::mv(kernel.t(), pass.u);
  pass.row_violation = l1_violation(u * row_sums, row_marginal);
  const at::Tensor scalings = at::cat({pass.u, pass.v});
  pass.next_is_in_range =
      at::logical_and(scalings >= 1 / kMaxScaling, scalings <= kMaxScaling).all().item<bool>();
  return pass;
}

}  // namespace

SinkhornResult sinkhorn_cuda(const at::Tensor& cost, const SinkhornOptions& options) {
  const c10::cuda::CUDAGuard guard(cost.device());
  const at::Tensor scaled_cost = (cost / options.lambda).contiguous();  // C/λ [d, k]
  const double row_marginal = 1.0 / static_cast<double>(scaled_cost.size(0));
  const double column_marginal = 1.0 / static_cast<double>(scaled_cost.size(1));
  std::optional<FusedPass> fused;
  if (scaled_cost.size(1) <= kMaxSinkhornColumns) fused.emplace(scaled_cost);

  at::Tensor beta = at::zeros({scaled_cost.size(1)}, scaled_cost.options());  // absorbed potential
  at::Tensor kernel;                                                          // K [d, k]
  at::Tensor u;                                                               // [d]
  at::Tensor v;                                                               // [k]
  const auto advance_in_log_domain = [&] {
    const at::Tensor alpha = std::log(row_marginal) - at::logsumexp(beta - scaled_cost, /*dim=*/1);
    at::Tensor exponent = alpha.unsqueeze(1) - scaled_cost;
    beta = std::log(column_marginal) - at::logsumexp(exponent, /*dim=*/0);
    kernel = exponent.add_(beta).exp_();
    u = at::ones_like(alpha);
    v = column_marginal / kernel.sum(0);
  };
  advance_in_log_domain();
  for (int64_t iterations = 1;; ++iterations) {
    const bool last = iterations == options.max_iterations;
    // The next iterate comes with the row violation of this one. Its columns are exact.
    const Pass next = fused ? (*fused)(kernel, u, v) : pass_by_products(kernel, u, v);
    if (next.row_violation <= options.tolerance || last) {
      const at::Tensor plan = u.unsqueeze(1) * kernel * v;
      const double violation = std::max(l1_violation(plan.sum(1), row_marginal),
                                        l1_violation(plan.sum(0), column_marginal));
      const bool converged = violation <= options.tolerance;
      if (last || converged) return {plan, iterations, violation, converged};
    }
    if (next.next_is_in_range) {
      u = next.u;
      v = next.v;
    } else {
      beta += v.log();
      advance_in_log_domain();
    }
  }
}

}  // namespace dotresize
