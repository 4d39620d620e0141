#include "worker/kernels/sinkhorn.h"

#include <ATen/ops/aminmax.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <stdexcept>
#include <vector>

#include "worker/kernels/cuda_kernels.h"
#include "worker/kernels/parallel_for_each.h"
#include "worker/kernels/sinkhorn_rows.h"

// min ⟨T, C⟩ − λH(T), T 1 = 1/d, Tᵀ1 = 1/k   =>   T = diag(u) K diag(v), K_ij = exp(α_i + β_j −
// C_ij/λ)
//
// A row update is u = (1/d) / (K v), a column update v = (1/k) / (Kᵀu). A row's sum K_i·v gives its
// u, and with it its part of Kᵀu while the row is in the cache. So both updates read K once.
//
// Potentials α and β absorb the scalings u and v when these leave [1e-100, 1e100]. Within these
// bounds, an entry of K too small for float64 belongs to an entry of T below 1e-108, which no
// marginal can resolve. Beyond them the iteration is repeated in the log domain, as the first one
// always is.

namespace dotresize {
namespace {

constexpr double kMaxScaling = 1e100;

/// Blocks of a matrix's rows. They depend only on its size, and so does the order of a sum over all
/// rows.
class RowBlocks {
 public:
  RowBlocks(int64_t rows, int64_t columns)
      : rows_(rows),
        columns_(columns),
        block_rows_(std::max(kMinRows, (rows + kMaxBlocks - 1) / kMaxBlocks)),
        count_((rows + block_rows_ - 1) / block_rows_) {}

  /// Calls function(shape, first row, block) for each block.
  template <class Function>
  void for_each(const Function& function) const {
    parallel_for_each(count_, [&](int64_t block) {
      const int64_t first = block * block_rows_;
      const int64_t rows = std::min(block_rows_, rows_ - first);
      function(SinkhornRows{static_cast<size_t>(rows), static_cast<size_t>(columns_)}, first,
               static_cast<size_t>(block));
    });
  }

  /// Calls function(shape, first row, vector over the columns) for each block. The vectors start as
  /// `start`, and are joined in order.
  template <class Function, class Join>
  std::vector<double> reduce(double start, const Join& join, const Function& function) const {
    const auto columns = static_cast<size_t>(columns_);
    std::vector<double> parts(static_cast<size_t>(count_) * columns, start);
    for_each([&](SinkhornRows shape, int64_t first, size_t block) {
      function(shape, first, parts.data() + block * columns);
    });
    std::vector<double> joined(columns, start);
    for (size_t i = 0; i < parts.size(); i += columns) {
      for (size_t j = 0; j < columns; ++j) joined[j] = join(joined[j], parts[i + j]);
    }
    return joined;
  }

 private:
  static constexpr int64_t kMinRows = 16;
  static constexpr int64_t kMaxBlocks = 64;

  int64_t rows_;
  int64_t columns_;
  int64_t block_rows_;
  int64_t count_;
};

struct Plan {
  at::Tensor T;
  double violation;  ///< larger of the two marginals' violations
};

class Iterate {
 public:
  Iterate(const at::Tensor& cost, double lambda)
      : d_(cost.size(0)),
        k_(cost.size(1)),
        cost_(cost.contiguous()),
        lambda_(lambda),
        row_marginal_(1.0 / static_cast<double>(d_)),
        column_marginal_(1.0 / static_cast<double>(k_)),
        blocks_(d_, k_),
        beta_(static_cast<size_t>(k_), 0.0),
        kernel_(at::empty({d_, k_}, at::kDouble)),
        row_sums_(static_cast<size_t>(d_)) {
    advance_in_log_domain();
  }

  /// Runs one row update and one column update.
  void advance() {
    std::vector<double> u = row_sums_;
    for (double& scaling : u) scaling = row_marginal_ / scaling;
    std::vector<double> v = next_column_sums_;
    for (double& scaling : v) scaling = column_marginal_ / scaling;
    const auto in_range = [](const std::vector<double>& scalings) {  // NaN is not
      return std::ranges::all_of(scalings,
                                 [](double s) { return s >= 1 / kMaxScaling && s <= kMaxScaling; });
    };
    if (in_range(u) && in_range(v)) {
      set_scalings(std::move(u), std::move(v));
    } else {
      for (size_t j = 0; j < beta_.size(); ++j) beta_[j] += std::log(v_[j]);
      advance_in_log_domain();
    }
  }

  /// Returns the row violation at no extra cost: the next row update needs the same sums. The
  /// columns are exact.
  double row_violation() const {
    double total = 0.0;
    for (size_t i = 0; i < u_.size(); ++i) total += std::abs(u_[i] * row_sums_[i] - row_marginal_);
    return total;
  }

  Plan plan() const {
    at::Tensor T = at::empty_like(kernel_);
    std::vector<double> rows(u_.size());
    const std::vector<double> columns =
        blocks_.reduce(0.0, std::plus<>(), [&](SinkhornRows shape, int64_t first, double* sums) {
          sinkhorn_make_plan(shape, row(kernel_, first), &u_[static_cast<size_t>(first)], v_.data(),
                             row(T, first), &rows[static_cast<size_t>(first)], sums);
        });
    const auto violation = [](const std::vector<double>& sums, double marginal) {
      double total = 0.0;
      for (const double sum : sums) total += std::abs(sum - marginal);
      return total;
    };
    return {T, std::max(violation(rows, row_marginal_), violation(columns, column_marginal_))};
  }

 private:
  double* row(const at::Tensor& matrix, int64_t i) const {
    return matrix.data_ptr<double>() + i * k_;
  }

  void set_scalings(std::vector<double> u, std::vector<double> v) {
    u_ = std::move(u);
    v_ = std::move(v);
    next_column_sums_ =
        blocks_.reduce(0.0, std::plus<>(), [&](SinkhornRows shape, int64_t first, double* sums) {
          sinkhorn_scale(shape, row(kernel_, first), v_.data(), row_marginal_,
                         &row_sums_[static_cast<size_t>(first)], sums);
        });
  }

  /// Updates rows and columns of the potentials from β alone. Then the largest entry of a column of
  /// K is 1, and v is the column update.
  void advance_in_log_domain() {
    std::vector<double> alpha(static_cast<size_t>(d_));
    blocks_.for_each([&](SinkhornRows shape, int64_t first, size_t) {
      sinkhorn_log_row_sums(shape, row(cost_, first), lambda_, beta_.data(),
                            &alpha[static_cast<size_t>(first)]);
    });
    for (double& potential : alpha) potential = std::log(row_marginal_) - potential;

    const std::vector<double> maxima = blocks_.reduce(
        -std::numeric_limits<double>::infinity(), [](double a, double b) { return std::max(a, b); },
        [&](SinkhornRows shape, int64_t first, double* largest) {
          sinkhorn_column_maxima(shape, row(cost_, first), lambda_,
                                 &alpha[static_cast<size_t>(first)], largest);
        });
    std::vector<double> v =
        blocks_.reduce(0.0, std::plus<>(), [&](SinkhornRows shape, int64_t first, double* sums) {
          sinkhorn_make_kernel(shape, row(cost_, first), lambda_,
                               &alpha[static_cast<size_t>(first)], maxima.data(),
                               row(kernel_, first), sums);
        });
    for (double& scaling : v) scaling = column_marginal_ / scaling;
    for (size_t j = 0; j < beta_.size(); ++j) beta_[j] = -maxima[j];
    set_scalings(std::vector<double>(static_cast<size_t>(d_), 1.0), std::move(v));
  }

  int64_t d_;
  int64_t k_;
  at::Tensor cost_;  // C [d, k]
  double lambda_;
  double row_marginal_;     // 1/d
  double column_marginal_;  // 1/k
  RowBlocks blocks_;
  std::vector<double> beta_;      // absorbed potential of the columns; determines that of the rows
  at::Tensor kernel_;             // K [d, k]
  std::vector<double> u_;         // [d]
  std::vector<double> v_;         // [k]
  std::vector<double> row_sums_;  // K v [d]
  std::vector<double> next_column_sums_;  // Kᵀu [k] of the next u
};

}  // namespace

SinkhornResult sinkhorn(const at::Tensor& cost, const SinkhornOptions& options) {
  TORCH_CHECK(cost.dim() == 2 && cost.numel() > 0 && cost.scalar_type() == at::kDouble,
              "a transport cost must be a float64 matrix, not ", cost.sizes(), " ",
              cost.scalar_type());
  TORCH_CHECK(options.lambda > 0, "lambda must be positive, not ", options.lambda);
  TORCH_CHECK(options.max_iterations >= 1, "max_iterations must be at least 1, not ",
              options.max_iterations);
  const auto [least, greatest] = at::aminmax(cost);  // both are NaN if any entry is
  if (!std::isfinite(least.item<double>() / options.lambda) ||
      !std::isfinite(greatest.item<double>() / options.lambda)) {
    throw std::runtime_error("the transport cost divided by lambda is not finite");
  }
  if (cost.is_cuda()) return cuda_kernels().sinkhorn(cost, options);
  Iterate iterate(cost, options.lambda);
  for (int64_t iterations = 1;; ++iterations) {
    const bool last = iterations == options.max_iterations;
    if (last || iterate.row_violation() <= options.tolerance) {
      const Plan plan = iterate.plan();
      const bool converged = plan.violation <= options.tolerance;
      if (last || converged) return {plan.T, iterations, plan.violation, converged};
    }
    iterate.advance();
  }
}

}  // namespace dotresize
