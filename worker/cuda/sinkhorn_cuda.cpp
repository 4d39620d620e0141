#include <ATen/ATen.h>
#include <ATen/ceil_div.h>
#include <c10/cuda/CUDAGuard.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>
#include <vector>

#include "worker/cuda/gpu_program.h"

// The iteration of worker/kernels/sinkhorn.cpp, with both updates in one pass over K. The pass from
// (u, v) to (u', v') also computes K v, and so the violation of the row marginal by (u, v).

namespace dotresize {
namespace {

// Constants of sinkhorn.cu.
constexpr unsigned int kThreads = 512;
constexpr unsigned int kColumns = 32;
constexpr unsigned int kParts = 8;
constexpr double kMaxScaling = 1e100;
struct Status {
  double violation;
  double out_of_range;
  double skipped;
};

constexpr int64_t kPassesAtOnce = 8;  // that the GPU does before the host looks

double l1_violation(const at::Tensor& sums, double marginal) {
  return (sums - marginal).abs().sum().item<double>();
}

/// Passes over K, up to one that was perhaps the last.
struct Passes {
  int64_t count = 1;
  at::Tensor u;                  ///< iterate before the last of them
  at::Tensor v;                  ///< likewise
  at::Tensor next_u;             ///< iterate after it
  at::Tensor next_v;             ///< likewise
  double row_violation = 0.0;    ///< by u and v
  bool next_is_in_range = true;  ///< all of its scalings are in [1e-100, 1e100]
};

using Scalings = std::pair<at::Tensor, at::Tensor>;  // u and v

class FusedPasses {
 public:
  FusedPasses(const at::Tensor& kernel)
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
    statuses_ = at::empty({kPassesAtOnce, sizeof(Status) / sizeof(double)}, kernel.options());
  }

  /// Runs passes from (u, v), at most `most`, until the violation is at most `tolerance` or the
  /// scalings leave their range.
  Passes operator()(const at::Tensor& kernel, const at::Tensor& u, const at::Tensor& v,
                    double tolerance, int64_t most) {
    std::vector<Scalings> iterates = {{u, v}};
    statuses_.zero_();
    for (int64_t pass = 0; pass < std::min(kPassesAtOnce, most); ++pass) {
      iterates.emplace_back(at::empty_like(u), at::empty_like(v));
      launch(kernel, iterates.end()[-2], iterates.back(), tolerance, pass);
    }
    const at::Tensor statuses = statuses_.cpu();
    const auto* status = static_cast<const Status*>(statuses.const_data_ptr());
    size_t last = iterates.size() - 2;
    while (last > 0 && status[last].skipped != 0.0) --last;
    return {static_cast<int64_t>(last) + 1,  iterates[last].first,      iterates[last].second,
            iterates[last + 1].first,        iterates[last + 1].second, status[last].violation,
            status[last].out_of_range == 0.0};
  }

 private:
  void launch(const at::Tensor& kernel, const Scalings& from, const Scalings& to, double tolerance,
              int64_t pass) {
    Status* status = static_cast<Status*>(statuses_.data_ptr()) + pass;
    const Status* previous = pass == 0 ? nullptr : status - 1;
    rows_kernel_.launch(static_cast<unsigned int>(blocks_), kThreads,
                        kernel.const_data_ptr<double>(), from.first.const_data_ptr<double>(),
                        from.second.const_data_ptr<double>(), to.first.data_ptr<double>(),
                        sums_.data_ptr<double>(), violations_.data_ptr<double>(), status, previous,
                        tolerance, static_cast<long long>(rows_), static_cast<long long>(columns_),
                        1.0 / static_cast<double>(rows_));
    columns_kernel_.launch(static_cast<unsigned int>(at::ceil_div(columns_, int64_t{kColumns})),
                           {kColumns, kParts}, sums_.const_data_ptr<double>(),
                           violations_.const_data_ptr<double>(), to.second.data_ptr<double>(),
                           status, previous, tolerance, blocks_, static_cast<long long>(columns_),
                           1.0 / static_cast<double>(columns_));
  }

  const GpuProgram& program_;
  GpuKernel rows_kernel_;
  GpuKernel columns_kernel_;
  int64_t rows_;
  int64_t columns_;
  int blocks_ = 0;
  at::Tensor sums_;        // [blocks, k]
  at::Tensor violations_;  // [blocks]
  at::Tensor statuses_;    // [passes, 3]
};

/// Version of one pass by two products, for plans too wide for the kernel.
Passes pass_by_products(const at::Tensor& kernel, const at::Tensor& u, const at::Tensor& v) {
  const double row_marginal = 1.0 / static_cast<double>(kernel.size(0));
  const double column_marginal = 1.0 / static_cast<double>(kernel.size(1));
  const at::Tensor row_sums = at::mv(kernel, v);
  Passes pass{.u = u, .v = v, .next_u = row_marginal / row_sums, .next_v = {}};
  pass.next_v = column_marginal / at::mv(kernel.t(), pass.next_u);
  pass.row_violation = l1_violation(u * row_sums, row_marginal);
  const at::Tensor scalings = at::cat({pass.next_u, pass.next_v});
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
  std::optional<FusedPasses> fused;
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
  for (int64_t iterations = 0;;) {
    // The next iterate comes with the row violation of this one. Its columns are exact.
    const Passes passes =
        fused ? (*fused)(kernel, u, v, options.tolerance, options.max_iterations - iterations)
              : pass_by_products(kernel, u, v);
    iterations += passes.count;
    const bool last = iterations == options.max_iterations;
    if (passes.row_violation <= options.tolerance || last) {
      const at::Tensor plan = passes.u.unsqueeze(1) * kernel * passes.v;
      const double violation = std::max(l1_violation(plan.sum(1), row_marginal),
                                        l1_violation(plan.sum(0), column_marginal));
      const bool converged = violation <= options.tolerance;
      if (last || converged) return {plan, iterations, violation, converged};
    }
    if (passes.next_is_in_range) {
      u = passes.next_u;
      v = passes.next_v;
    } else {
      beta += passes.v.log();
      advance_in_log_domain();
    }
  }
}

}  // namespace dotresize
