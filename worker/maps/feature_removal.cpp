// With V = Lᵀ·W the costs are s_j = ‖v_j‖² / [H⁻¹]_jj, and removing p is a step of a pivoted
// Cholesky decomposition of H⁻¹: with the row r = [H⁻¹]_p / √[H⁻¹]_pp
//   H⁻¹ ← H⁻¹ − rᵀ r ,   V ← V − v_p r / √[H⁻¹]_pp .
// A block of such steps is collected and then subtracted at once (lazy updates): until then a step
// takes from H⁻¹ and V what it needs, a row and a column, and corrects these alone. Of V it needs
// the products with v_p too, for ‖v_j‖², which is kept up to date as the diagonal of H⁻¹ is.
#include "worker/maps/feature_removal.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "base/errors.h"

namespace dotresize {
namespace {

constexpr double kRidge = 0.01;  // of the mean of the diagonal
constexpr int64_t kBlock = 64;   // steps between two updates

class FeatureRemoval {
 public:
  FeatureRemoval(at::Tensor inverse, at::Tensor V)
      : inverse_(std::move(inverse)),
        V_(std::move(V)),
        squares_(V_.square().sum(0)),
        diagonal_(inverse_.diagonal().clone()) {}

  void remove(int64_t count) {
    for (; count > 0; count -= kBlock) remove_block(std::min(count, kBlock));
  }
  /// [left] int64 on the CPU, ascending.
  at::Tensor kept() const { return at::nonzero(at::isfinite(squares_)).flatten().cpu(); }
  const at::Tensor& V() const { return V_; }
  /// ½ Σ s over the first 0, 1, ... features that are removed.
  const std::vector<double>& rises() const { return rises_; }

 private:
  void remove_block(int64_t count);

  at::Tensor inverse_;   ///< [f, f] as of the last block
  at::Tensor V_;         ///< [d, f] likewise
  at::Tensor squares_;   ///< ‖v_j‖² [f]; infinite once the feature is removed
  at::Tensor diagonal_;  ///< of the inverse [f]; 1 once the feature is removed
  std::vector<double> rises_ = {0.0};
};

void FeatureRemoval::remove_block(int64_t count) {
  at::Tensor rows = at::empty({count, inverse_.size(1)}, inverse_.options());  // r of each step
  at::Tensor columns = at::empty({V_.size(0), count}, V_.options());  // v_p / √[H⁻¹]_pp
  for (int64_t step = 0; step < count; ++step) {
    const at::Tensor costs = squares_ / diagonal_;
    const int64_t p = costs.argmin().item<int64_t>();
    rises_.push_back(rises_.back() + 0.5 * costs[p].item<double>());
    const at::Tensor past_rows = rows.narrow(0, 0, step);
    const at::Tensor past_columns = columns.narrow(1, 0, step);
    at::Tensor row = inverse_[p] - at::mv(past_rows.t(), past_rows.select(1, p));
    const at::Tensor v = V_.select(1, p) - at::mv(past_columns, past_rows.select(1, p));
    const double pivot = std::sqrt(row[p].item<double>());
    row.div_(pivot);
    const at::Tensor products =
        at::mv(V_.t(), v) - at::mv(past_rows.t(), at::mv(past_columns.t(), v));
    const at::Tensor shares = row / pivot;
    squares_.addcmul_(shares, products, -2.0).add_(shares.square(), v.square().sum().item());
    diagonal_.sub_(row.square());
    squares_[p] = std::numeric_limits<double>::infinity();
    diagonal_[p] = 1.0;
    rows[step].copy_(row);
    columns.select(1, step).copy_(v / pivot);
  }
  inverse_.addmm_(rows.t(), rows, 1.0, -1.0);
  V_.addmm_(columns, rows, 1.0, -1.0);
}

void check_shapes(const at::Tensor& gram, const at::Tensor& weight, int64_t left, int64_t least) {
  const int64_t features = weight.size(1);
  TORCH_CHECK(left >= least && left <= features, "between ", least, " and ", features,
              " features can be left, not ", left);
  TORCH_CHECK(gram.dim() == 2 && gram.size(0) == features && gram.size(1) == features,
              "a Gram matrix of shape ", gram.sizes(), " is not one of ", features, " features");
}

FeatureRemoval remove_until(at::Tensor gram, const at::Tensor& weight,
                            const at::Tensor& metric_factor, int64_t left) {
  const at::Tensor V = metric_factor.defined() ? at::mm(metric_factor.t(), weight) : weight.clone();
  FeatureRemoval removal(ridged_inverse(std::move(gram)), V);
  removal.remove(weight.size(1) - left);
  return removal;
}

}  // namespace

at::Tensor ridged_inverse(at::Tensor gram) {
  const double mean = gram.diagonal().mean().item<double>();
  if (!std::isfinite(mean)) throw NonFiniteError("the features are not finite");
  gram.diagonal().add_(mean > 0 ? kRidge * mean : 1.0);
  at::Tensor factor = at::linalg_cholesky(gram);
  gram.reset();
  return at::cholesky_inverse(factor);
}

std::vector<double> removal_rises(at::Tensor gram, const at::Tensor& weight,
                                  const at::Tensor& metric_factor, int64_t left) {
  check_shapes(gram, weight, left, 0);
  if (left == weight.size(1)) return {0.0};
  return remove_until(std::move(gram), weight, metric_factor, left).rises();
}

CutFeatures remove_features(at::Tensor gram, const at::Tensor& weight,
                            const at::Tensor& metric_factor, int64_t left) {
  check_shapes(gram, weight, left, 1);
  if (left == weight.size(1)) return {at::arange(left), weight.clone(), 0.0};
  const FeatureRemoval removal = remove_until(std::move(gram), weight, metric_factor, left);
  CutFeatures cut{removal.kept(), {}, removal.rises().back()};
  cut.weight = removal.V().index_select(1, cut.kept.to(weight.device()));
  if (metric_factor.defined()) {
    cut.weight = at::linalg_solve_triangular(metric_factor.t(), cut.weight, /*upper=*/true);
  }
  return cut;
}

}  // namespace dotresize
