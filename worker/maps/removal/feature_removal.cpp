// With V = Lᵀ·W the costs are s_j = ‖v_j‖² / [H⁻¹]_jj. The removal of feature p is a step of a
// pivoted Cholesky decomposition of H⁻¹, with the row r = [H⁻¹]_p / √[H⁻¹]_pp and c = v_p /
// √[H⁻¹]_pp:
//   H⁻¹ ← H⁻¹ − rᵀ r ,   V ← V − c r .
// The costs need V only in the products P = VᵀV, which are as small as H⁻¹:
//   P ← P − wᵀ r − rᵀ w ,   w = cᵀV − ½ ‖c‖² r .
// Steps are collected in blocks, and a block is subtracted at once (lazy updates). Until then, a
// step takes a row of each matrix and corrects only that row (worker/kernels/removal_steps.h). On a
// GPU the host waits once per block. A CPU keeps the lower triangles alone, which halves the
// operations. Removed features are dropped from both matrices once they are an eighth of them.
#include "worker/maps/removal/feature_removal.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/errors.h"
#include "worker/kernels/removal_steps.h"

namespace dotresize {
namespace {

constexpr double kGramRidge = 0.01;  // relative to the mean of the diagonal

/// Rows of a matrix that one product changes up to their last diagonal entry.
constexpr int64_t kTriangleRows = 512;
/// Rows of a matrix that are moved at once.
constexpr int64_t kMovedRows = 256;

/// Subtracts leftᵀ·right, which is symmetric, from a symmetric matrix: on a CPU from the lower
/// triangle and some entries above it. left, right: [steps, n].
void subtract_product(at::Tensor& matrix, const at::Tensor& left, const at::Tensor& right) {
  const int64_t n = matrix.size(0);
  const int64_t rows = matrix.is_cuda() ? n : kTriangleRows;
  for (int64_t first = 0; first < n; first += rows) {
    const int64_t count = std::min(rows, n - first);
    matrix.narrow(0, first, count)
        .narrow(1, 0, first + count)
        .addmm_(left.narrow(1, first, count).t(), right.narrow(1, 0, first + count), 1.0, -1.0);
  }
}

/// Moves the rows and columns `stays` (ascending) of a square matrix to the front of its memory,
/// and returns the view of them. A second matrix of that size may not fit.
at::Tensor kept_of(const at::Tensor& matrix, const at::Tensor& stays) {
  const int64_t n = stays.size(0);
  at::Tensor kept = matrix.view({-1}).narrow(0, 0, n * n).view({n, n});
  for (int64_t first = 0; first < n; first += kMovedRows) {
    const int64_t count = std::min(kMovedRows, n - first);
    const at::Tensor rows = matrix.index_select(0, stays.narrow(0, first, count));
    kept.narrow(0, first, count).copy_(rows.index_select(1, stays));
  }
  return kept;
}

struct FeatureRemoval {
  /// Removes `count` features.
  void remove_block(int64_t count);
  /// Drops the removed features from the state.
  void drop_removed();

  RemovalState state;
  at::Tensor features =
      at::arange(state.inverse.size(0), at::kLong);  ///< features of the rows [n], on the CPU
  int64_t gone = 0;                                  ///< number of rows whose feature is removed
  std::vector<int64_t> order = {};
  std::vector<double> loss_increases = {0.0};
};

void FeatureRemoval::remove_block(int64_t count) {
  const RemovalSteps steps = removal_steps(state, count);
  subtract_product(state.inverse, steps.rows, steps.rows);
  subtract_product(state.products, at::cat({steps.changes, steps.rows}),
                   at::cat({steps.rows, steps.changes}));
  const at::Tensor costs = steps.costs.cpu();
  const at::Tensor removed = steps.removed.cpu();
  for (int64_t step = 0; step < count; ++step) {
    loss_increases.push_back(loss_increases.back() + 0.5 * costs.const_data_ptr<double>()[step]);
    order.push_back(features.const_data_ptr<int64_t>()[removed.const_data_ptr<int64_t>()[step]]);
  }
  gone += count;
}

void FeatureRemoval::drop_removed() {
  const at::Tensor stays = at::nonzero(at::isfinite(state.squares)).flatten();
  for (at::Tensor* matrix : {&state.inverse, &state.products}) *matrix = kept_of(*matrix, stays);
  for (at::Tensor* of_features : {&state.squares, &state.diagonal}) {
    *of_features = of_features->index_select(0, stays);
  }
  features = features.index_select(0, stays.cpu());
  gone = 0;
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
  gram.diagonal().add_(mean > 0 ? kGramRidge * mean : 1.0);
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
  // Symmetric and in the order of columns. Each of its rows is then in one piece.
  at::Tensor inverse = ridged_inverse(std::move(gram)).t().contiguous();
  at::Tensor V = metric_factor.defined() ? at::mm(metric_factor.t(), weight) : weight;
  at::Tensor products = at::mm(V.t(), V);
  V.reset();
  FeatureRemoval removal{.state = {.inverse = inverse,
                                   .products = products,
                                   .squares = products.diagonal().clone(),
                                   .diagonal = inverse.diagonal().clone()}};
  inverse.reset();
  products.reset();
  for (int64_t count = weight.size(1) - left; count > 0; count -= kMaxRemovalSteps) {
    if (8 * removal.gone >= removal.features.size(0)) removal.drop_removed();
    removal.remove_block(std::min(count, kMaxRemovalSteps));
  }
  return {at::tensor(removal.order, at::kLong), removal.loss_increases};
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
