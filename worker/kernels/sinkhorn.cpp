#include "worker/kernels/sinkhorn.h"

#include <ATen/ATen.h>

#include <cmath>
#include <stdexcept>

#include "worker/kernels/cuda_kernels.h"

// min ⟨T, C⟩ − λH(T), T 1 = 1/d, Tᵀ1 = 1/k   =>   T = diag(u) K diag(v), K_ij = exp(α_i + β_j −
// C_ij/λ)
//
// A row update is u = (1/d) / (K v), a column update v = (1/k) / (Kᵀu). Potentials α and β absorb
// the scalings u and v when these leave [1e-100, 1e100]. Within these bounds an entry of K too
// small for float64 belongs to an entry of T below 1e-108, which no marginal can see; beyond them
// the iteration is done again in the log domain, which is also where the first one is done.

namespace dotresize {
namespace {

constexpr double kLargestScaling = 1e100;

/// NaN and infinity are out of range too.
bool in_range(const at::Tensor& scaling) {
  return at::logical_and(scaling >= 1 / kLargestScaling, scaling <= kLargestScaling)
      .all()
      .item<bool>();
}

double violation(const at::Tensor& sums, double marginal) {
  return (sums - marginal).abs().sum().item<double>();
}

class Iterate {
 public:
  explicit Iterate(at::Tensor scaled_cost)
      : scaled_cost_(std::move(scaled_cost)),
        row_marginal_(1.0 / static_cast<double>(scaled_cost_.size(0))),
        column_marginal_(1.0 / static_cast<double>(scaled_cost_.size(1))),
        beta_(at::zeros({scaled_cost_.size(1)}, scaled_cost_.options())) {
    advance_in_log_domain();
  }

  /// One row update and one column update.
  void advance() {
    const at::Tensor u = row_marginal_ / row_sums_;
    const at::Tensor v = column_marginal_ / at::mv(kernel_.t(), u);
    if (in_range(u) && in_range(v)) {
      set_scalings(u, v);
    } else {
      beta_ += v_.log();
      advance_in_log_domain();
    }
  }

  /// Of the rows alone, at no cost: the next row update needs the same sums. The columns are exact.
  double row_violation() const { return violation(u_ * row_sums_, row_marginal_); }

  at::Tensor plan() const { return u_.unsqueeze(1) * kernel_ * v_; }

  /// The larger of both marginals' violations of a plan.
  double violation_of(const at::Tensor& plan) const {
    return std::max(violation(plan.sum(1), row_marginal_),
                    violation(plan.sum(0), column_marginal_));
  }

 private:
  void set_scalings(const at::Tensor& u, const at::Tensor& v) {
    u_ = u;
    v_ = v;
    row_sums_ = at::mv(kernel_, v_);
  }

  /// A row and a column update of the potentials, from β alone, after which K itself is the plan up
  /// to the rounding of the potentials: a last column scaling, close to 1, removes that.
  void advance_in_log_domain() {
    const at::Tensor alpha =
        std::log(row_marginal_) - at::logsumexp(beta_ - scaled_cost_, /*dim=*/1);
    at::Tensor exponent = alpha.unsqueeze(1) - scaled_cost_;
    beta_ = std::log(column_marginal_) - at::logsumexp(exponent, /*dim=*/0);
    kernel_ = exponent.add_(beta_).exp_();
    set_scalings(at::ones_like(alpha), column_marginal_ / kernel_.sum(0));
  }

  at::Tensor scaled_cost_;  // C/λ [d, k]
  double row_marginal_;     // 1/d
  double column_marginal_;  // 1/k
  at::Tensor beta_;         // the columns' absorbed potential [k]; the rows' follows from it
  at::Tensor kernel_;       // K [d, k]
  at::Tensor u_;            // [d]
  at::Tensor v_;            // [k]
  at::Tensor row_sums_;     // K v [d]
};

void check(const at::Tensor& cost, const SinkhornOptions& options) {
  TORCH_CHECK(cost.dim() == 2 && cost.numel() > 0 && cost.scalar_type() == at::kDouble,
              "a transport cost must be a float64 matrix, not ", cost.sizes(), " ",
              cost.scalar_type());
  TORCH_CHECK(options.lambda > 0, "lambda must be positive, not ", options.lambda);
  TORCH_CHECK(options.max_iterations >= 1, "max_iterations must be at least 1, not ",
              options.max_iterations);
}

at::Tensor scaled(const at::Tensor& cost, const SinkhornOptions& options) {
  at::Tensor scaled_cost = cost / options.lambda;
  if (!scaled_cost.isfinite().all().item<bool>()) {
    throw std::runtime_error("the transport cost divided by lambda is not finite");
  }
  return scaled_cost;
}

}  // namespace

SinkhornResult sinkhorn(const at::Tensor& cost, const SinkhornOptions& options) {
  check(cost, options);
  if (cost.is_cuda()) return cuda_kernels().sinkhorn(cost, options);
  Iterate iterate(scaled(cost, options));
  for (int64_t iterations = 1;; ++iterations) {
    const bool last = iterations == options.max_iterations;
    if (last || iterate.row_violation() <= options.tolerance) {
      const at::Tensor plan = iterate.plan();
      const double violation = iterate.violation_of(plan);
      const bool converged = violation <= options.tolerance;
      if (last || converged) return {plan, iterations, violation, converged};
    }
    iterate.advance();
  }
}

}  // namespace dotresize
