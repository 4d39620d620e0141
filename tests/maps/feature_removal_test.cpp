#include "worker/maps/removal/feature_removal.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <tuple>
#include <vector>

#include "base/errors.h"
#include "worker/maps/metric.h"

namespace dotresize {
namespace {

/// Features (some nearly sums of others), the weight that reads them, and its error metric.
struct Mlp {
  at::Tensor gram;    ///< E[hᵀh] [f, f]
  at::Tensor weight;  ///< [d, f]
  at::Tensor metric;  ///< L [d, d]

  explicit Mlp(int64_t features, int64_t width = 17) {
    at::manual_seed(features);
    const int64_t tokens = 3 * features;
    const at::Tensor mixed = at::randn({features, features}, at::kDouble) *
                             at::arange(1, features + 1, at::kDouble).reciprocal();
    const at::Tensor h = at::mm(at::randn({tokens, features}, at::kDouble), mixed.t());
    gram = at::mm(h.t(), h) / static_cast<double>(tokens);
    weight = at::randn({width, features}, at::kDouble);
    const at::Tensor g =
        at::randn({4 * width, width}, at::kDouble) * at::arange(1, width + 1, at::kDouble);
    metric = metric_factor(at::mm(g.t(), g));
  }
  at::Tensor H() const {
    return gram + 0.01 * gram.diagonal().mean() * at::eye(gram.size(0), at::kDouble);
  }
  at::Tensor F(bool in_metric) const {
    return in_metric ? at::mm(metric, metric.t()) : at::eye(weight.size(0), at::kDouble);
  }
};

struct Cut {
  at::Tensor kept;
  at::Tensor weight;
  double predicted_loss_increase = 0.0;
};

Cut remove_features(const at::Tensor& gram, const at::Tensor& weight, const at::Tensor& metric,
                    int64_t left) {
  const Removal removal = removal_of_features(gram.clone(), weight, metric, left);
  CutFeatures cut = features_left(removal.order, gram.clone(), weight, left);
  return {cut.kept, cut.weight, removal.loss_increases.back()};
}

/// Removes one feature after another by the formulas, recomputing everything in each step.
Cut one_by_one(const Mlp& mlp, bool in_metric, int64_t left) {
  at::Tensor W = mlp.weight.clone();
  at::Tensor inverse = at::linalg_inv(mlp.H());
  const at::Tensor F = mlp.F(in_metric);
  at::Tensor alive = at::ones({W.size(1)}, at::kBool);
  Cut cut;
  for (int64_t step = W.size(1); step > left; --step) {
    at::Tensor costs = (W * at::mm(F, W)).sum(0) / inverse.diagonal();
    costs.masked_fill_(alive.logical_not(), std::numeric_limits<double>::infinity());
    const int64_t p = costs.argmin().item<int64_t>();
    cut.predicted_loss_increase += 0.5 * costs[p].item<double>();
    const at::Tensor row = inverse[p] / inverse[p][p];
    W -= at::outer(W.select(1, p), row);
    inverse -= at::outer(inverse.select(1, p), row);
    alive[p] = false;
  }
  cut.kept = at::nonzero(alive).flatten();
  cut.weight = W.index_select(1, cut.kept);
  return cut;
}

/// Cases of 150 features, not a multiple of a block: one removal, several blocks, nearly all.
class RemovalInBlocks : public testing::TestWithParam<std::tuple<int64_t, int64_t, bool>> {};

TEST_P(RemovalInBlocks, IsThatOneByOne) {
  const auto [features, left, in_metric] = GetParam();
  const Mlp mlp(features);
  const Cut expected = one_by_one(mlp, in_metric, left);
  const Cut found =
      remove_features(mlp.gram, mlp.weight, in_metric ? mlp.metric : at::Tensor(), left);
  EXPECT_TRUE(at::equal(found.kept, expected.kept));
  EXPECT_LT((found.weight - expected.weight).abs().max().item<double>(), 1e-8);
  EXPECT_NEAR(found.predicted_loss_increase, expected.predicted_loss_increase,
              1e-9 * expected.predicted_loss_increase);
}

INSTANTIATE_TEST_SUITE_P(Sizes, RemovalInBlocks,
                         testing::Combine(testing::Values(150), testing::Values(149, 86, 85, 13, 1),
                                          testing::Bool()));

/// Matrices of more rows than one product changes (kTriangleRows).
INSTANTIATE_TEST_SUITE_P(Triangles, RemovalInBlocks, testing::Values(std::tuple(600, 470, true)));

/// The sum over the steps is the loss of the whole removal. No other weights of the kept features
/// have a lower loss.
TEST(FeatureRemoval, PredictsTheErrorOfWhatItWritesBack) {
  const Mlp mlp(90);
  const Cut cut = remove_features(mlp.gram, mlp.weight, mlp.metric, 50);
  const auto error_of = [&](const at::Tensor& weight) {
    const at::Tensor change = mlp.weight.index_copy(1, cut.kept, at::zeros_like(weight))
                                  .index_add(1, cut.kept, mlp.weight.index_select(1, cut.kept))
                                  .index_add(1, cut.kept, weight, -1.0);
    return 0.5 * (at::mm(at::mm(change, mlp.H()), change.t()) * mlp.F(true)).sum().item<double>();
  };
  EXPECT_NEAR(cut.predicted_loss_increase, error_of(cut.weight),
              1e-9 * cut.predicted_loss_increase);
  EXPECT_GT(error_of(cut.weight + 0.01 * at::randn_like(cut.weight)), cut.predicted_loss_increase);
  EXPECT_GT(error_of(mlp.weight.index_select(1, cut.kept)), 1.5 * cut.predicted_loss_increase);
}

TEST(FeatureRemoval, IsOnItsWayWhatItIsIfItEndsThere) {
  const Mlp mlp(150);
  const Removal removal = removal_of_features(mlp.gram.clone(), mlp.weight, mlp.metric, 13);
  ASSERT_EQ(removal.loss_increases.size(), 138U);
  ASSERT_EQ(removal.order.size(0), 137);
  EXPECT_TRUE(std::ranges::is_sorted(removal.loss_increases));
  for (const int64_t left : {150, 149, 86, 85, 13}) {
    const Cut expected = remove_features(mlp.gram, mlp.weight, mlp.metric, left);
    const CutFeatures found = features_left(removal.order, mlp.gram.clone(), mlp.weight, left);
    EXPECT_EQ(removal.loss_increases.at(static_cast<size_t>(150 - left)),
              expected.predicted_loss_increase);
    EXPECT_TRUE(at::equal(found.kept, expected.kept));
    EXPECT_TRUE(at::equal(found.weight, expected.weight));
  }
}

TEST(FeatureRemoval, OfAllFeaturesCostsAllThatTheyWrite) {
  const Mlp mlp(70);
  const std::vector<double> loss_increases =
      removal_of_features(mlp.gram.clone(), mlp.weight, mlp.metric, 0).loss_increases;
  ASSERT_EQ(loss_increases.size(), 71U);
  const at::Tensor written = at::mm(at::mm(mlp.weight, mlp.H()), mlp.weight.t());
  const double expected = 0.5 * (written * mlp.F(true)).sum().item<double>();
  EXPECT_NEAR(loss_increases.back(), expected, 1e-9 * expected);
}

TEST(FeatureRemoval, OfNoFeatureChangesNothing) {
  const Mlp mlp(20);
  const Cut cut = remove_features(mlp.gram, mlp.weight, mlp.metric, 20);
  EXPECT_TRUE(at::equal(cut.kept, at::arange(20)));
  EXPECT_TRUE(at::equal(cut.weight, mlp.weight));
  EXPECT_EQ(cut.predicted_loss_increase, 0.0);
}

TEST(FeatureRemoval, TakesFeaturesThatWriteNothingFirst) {
  const Mlp mlp(70);
  at::Tensor weight = mlp.weight.clone();
  const at::Tensor idle = at::arange(3, 70, 5);  // 14 features
  weight.index_fill_(1, idle, 0.0);
  const Cut cut = remove_features(mlp.gram, weight, mlp.metric, 56);
  EXPECT_FALSE(at::isin(cut.kept, idle).any().item<bool>());
  EXPECT_LT((cut.weight - weight.index_select(1, cut.kept)).abs().max().item<double>(), 1e-12);
  EXPECT_EQ(cut.predicted_loss_increase, 0.0);
}

TEST(FeatureRemoval, WithoutTokensGoesByTheColumns) {
  const Mlp mlp(40);
  const Cut cut = remove_features(at::zeros_like(mlp.gram), mlp.weight, {}, 10);
  const at::Tensor best = std::get<1>(mlp.weight.square().sum(0).topk(10));
  const at::Tensor largest = std::get<0>(best.sort());
  EXPECT_TRUE(at::equal(cut.kept, largest));
  EXPECT_TRUE(at::equal(cut.weight, mlp.weight.index_select(1, largest)));
}

TEST(FeatureRemoval, RefusesFeaturesThatAreNotFinite) {
  Mlp mlp(10);
  mlp.gram[2][2] = std::numeric_limits<double>::infinity();
  EXPECT_THROW(remove_features(mlp.gram, mlp.weight, {}, 5), NonFiniteError);
}

}  // namespace
}  // namespace dotresize
