// With V = Lᵀ·W the costs are s_j = ‖v_j‖² / [H⁻¹]_jj. The removal of feature p is a step of a
// pivoted Cholesky decomposition of H⁻¹, with the row r = [H⁻¹]_p / √[H⁻¹]_pp and c = v_p /
// √[H⁻¹]_pp:
//   H⁻¹ ← H⁻¹ − rᵀ r ,   V ← V − c r .
// The costs need V only in the products P = VᵀV, which are as small as H⁻¹:
//   P ← P − wᵀ r − rᵀ w ,   w = cᵀV − ½ ‖c‖² r .
// Steps are collected in blocks, and a block is subtracted at once (lazy updates). Until then, a
// step takes a row of each matrix and corrects only that row. On a GPU the host waits once per
// block. Removed features are dropped from both matrices once they are an eighth of them.
#include "worker/maps/removal/feature_removal.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "base/errors.h"

namespace dotresize {
namespace {

constexpr double kRidge = 0.01;  // relative to the mean of the diagonal
constexpr int64_t kBlock = 64;   // steps between two updates

class FeatureRemoval {
 public:
  FeatureRemoval(at::Tensor inverse, at::Tensor products)
      : inverse_(std::move(inverse)),
        products_(std::move(products)),
        squares_(products_.diagonal().clone()),
        diagonal_(inverse_.diagonal().clone()),
        features_(at::arange(inverse_.size(0), at::kLong)) {}

  void remove(int64_t count) {
    for (; count > 0; count -= kBlock) {
      if (8 * gone_ >= features_.size(0)) drop_gone();
      remove_block(std::min(count, kBlock));
    }
  }
  Removal removal() const { return {at::tensor(order_, at::kLong), loss_increases_}; }

 private:
  void remove_block(int64_t count);
  void drop_gone();

  at::Tensor inverse_;   ///< [n, n], after the last block
  at::Tensor products_;  ///< VᵀV [n, n], after the last block
  at::Tensor squares_;   ///< ‖v_j‖² [n]; infinite once the feature is removed
  at::Tensor diagonal_;  ///< diagonal of the inverse [n]; 1 once the feature is removed
  at::Tensor features_;  ///< features of the rows [n], on the CPU
  int64_t gone_ = 0;     ///< number of rows whose feature is removed
  std::vector<int64_t> order_;
  std::vector<double> loss_increases_ = {0.0};
};

void FeatureRemoval::remove_block(int64_t count) {
  at::Tensor rows = at::empty({count, inverse_.size(1)}, inverse_.options());  // r of each step
  at::Tensor changes = at::empty_like(rows);                                   // w of each step
  at::Tensor costs = at::empty({count, 1}, inverse_.options());
  at::Tensor removed = at::empty({count, 1}, inverse_.options().dtype(at::kLong));
  for (int64_t step = 0; step < count; ++step) {
    const auto [least, at] = (squares_ / diagonal_).min(0, /*keepdim=*/true);
    costs[step].copy_(least);
    removed[step].copy_(at);
    const auto of_removed = [&at = at](const at::Tensor& t) { return t.index_select(-1, at); };
    const at::Tensor past_rows = rows.narrow(0, 0, step);
    const at::Tensor past_changes = changes.narrow(0, 0, step);
    const at::Tensor of_rows = of_removed(past_rows).squeeze(1);
    at::Tensor row = inverse_.index_select(0, at).squeeze(0) - at::mv(past_rows.t(), of_rows);
    const at::Tensor pivot = of_removed(row).sqrt();
    row.div_(pivot);
    at::Tensor change = products_.index_select(0, at).squeeze(0) -
                        at::mv(past_changes.t(), of_rows) -
                        at::mv(past_rows.t(), of_removed(past_changes).squeeze(1));
    change.div_(pivot).sub_(row * (of_removed(squares_) / (2.0 * pivot.square())));
    squares_.addcmul_(row, change, -2.0);
    diagonal_.sub_(row.square());
    squares_.index_fill_(0, at, std::numeric_limits<double>::infinity());
    diagonal_.index_fill_(0, at, 1.0);
    rows[step].copy_(row);
    changes[step].copy_(change);
  }
  inverse_.addmm_(rows.t(), rows, 1.0, -1.0);
  products_.addmm_(changes.t(), rows, 1.0, -1.0).addmm_(rows.t(), changes, 1.0, -1.0);
  costs = costs.cpu();
  removed = removed.cpu();
  for (int64_t step = 0; step < count; ++step) {
    loss_increases_.push_back(loss_increases_.back() + 0.5 * costs.const_data_ptr<double>()[step]);
    order_.push_back(features_.const_data_ptr<int64_t>()[removed.const_data_ptr<int64_t>()[step]]);
  }
  gone_ += count;
}

void FeatureRemoval::drop_gone() {
  const at::Tensor left = at::nonzero(at::isfinite(squares_)).flatten();
  inverse_ = inverse_.index_select(0, left).index_select(1, left);
  products_ = products_.index_select(0, left).index_select(1, left);
  squares_ = squares_.index_select(0, left);
  diagonal_ = diagonal_.index_select(0, left);
  features_ = features_.index_select(0, left.cpu());
  gone_ = 0;
}

void check_shapes(const at::Tensor& gram, const at::Tensor& weight, int64_t left, int64_t least) {
  const int64_t features = weight.size(1);
  TORCH_CHECK(left >= least && left <= features, "between ", least, " and ", features,
              " features can be left, not ", left);
  TORCH_CHECK(gram.dim() == 2 && gram.size(0) == features && gram.size(1) == features,
              "a Gram matrix of shape ", gram.sizes(), " is not one of ", features, " features");
}

/// Turns the Gram matrix into H in place.
void add_ridge(at::Tensor& gram) {
  const double mean = gram.diagonal().mean().item<double>();
  if (!std::isfinite(mean)) throw NonFiniteError("the features are not finite");
  gram.diagonal().add_(mean > 0 ? kRidge * mean : 1.0);
}

at::Tensor products_of(const at::Tensor& weight, const at::Tensor& metric_factor) {
  const at::Tensor V = metric_factor.defined() ? at::mm(metric_factor.t(), weight) : weight;
  return at::mm(V.t(), V);
}

}  // namespace

at::Tensor ridged_inverse(at::Tensor gram) {
  add_ridge(gram);
  at::Tensor factor = at::linalg_cholesky(gram);
  gram.reset();
  return at::cholesky_inverse(factor);
}

Removal removal_of_features(at::Tensor gram, const at::Tensor& weight,
                            const at::Tensor& metric_factor, int64_t left) {
  check_shapes(gram, weight, left, 0);
  at::Tensor inverse = ridged_inverse(std::move(gram));
  FeatureRemoval removal(std::move(inverse), products_of(weight, metric_factor));
  removal.remove(weight.size(1) - left);
  return removal.removal();
}

CutFeatures features_left(const at::Tensor& order, at::Tensor gram, const at::Tensor& weight,
                          int64_t left) {
  check_shapes(gram, weight, left, 1);
  const int64_t removed = weight.size(1) - left;
  if (removed == 0) return {at::arange(left), weight.clone()};
  at::Tensor stays = at::ones({weight.size(1)}, at::kBool);
  stays.index_fill_(0, order.narrow(0, 0, removed), false);
  const at::Tensor kept = at::nonzero(stays).flatten();
  add_ridge(gram);
  const at::Tensor of_left = gram.index_select(1, kept.to(gram.device()));  // H_K
  gram.reset();
  const at::Tensor written = at::mm(weight, of_left);
  const at::Tensor factor = at::linalg_cholesky(of_left.index_select(0, kept.to(of_left.device())));
  return {kept, at::cholesky_solve(written.t(), factor).t().contiguous()};
}

}  // namespace dotresize
