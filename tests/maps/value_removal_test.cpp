#include "worker/maps/removal/value_removal.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <tuple>
#include <vector>

#include "base/errors.h"
#include "worker/maps/metric.h"

namespace dotresize {
namespace {

constexpr AttentionHeads kHeads{6, 2};
constexpr int64_t kDim = 7;
constexpr int64_t kAll = 6 * kDim;
constexpr int64_t kSharing = 3;  // query heads per value head

/// Gram matrix of an attention's values in all heads, the weight that reads them, and its error
/// metric.
struct Attention {
  at::Tensor gram;
  at::Tensor weight;  ///< [11, kAll]
  at::Tensor metric;

  Attention() {
    at::manual_seed(1);
    const at::Tensor mixed =
        at::randn({kAll, kAll}, at::kDouble) * at::arange(1, kAll + 1, at::kDouble).reciprocal();
    const at::Tensor a = at::mm(at::randn({3 * kAll, kAll}, at::kDouble), mixed.t());
    gram = at::mm(a.t(), a) / static_cast<double>(3 * kAll);
    weight = at::randn({11, kAll}, at::kDouble);
    const at::Tensor g = at::randn({44, 11}, at::kDouble) * at::arange(1, 12, at::kDouble);
    metric = metric_factor(at::mm(g.t(), g));
  }
  at::Tensor L(bool in_metric) const { return in_metric ? metric : at::Tensor(); }
  at::Tensor F(bool in_metric) const {
    return in_metric ? at::mm(metric, metric.t()) : at::eye(11, at::kDouble);
  }
  at::Tensor H() const { return gram + 0.01 * gram.diagonal().mean() * at::eye(kAll, at::kDouble); }
};

at::Tensor block(const at::Tensor& matrix, int64_t head) {
  return matrix.narrow(0, head * kDim, kDim).narrow(1, head * kDim, kDim);
}

/// Returns the cut attention's weight on the original values: [11, kAll].
at::Tensor effective(const CutValues& cut) {
  const int64_t left = cut.turns.size(2);
  std::vector<at::Tensor> columns;
  for (int64_t h = 0; h < kHeads.query; ++h) {
    columns.push_back(at::mm(cut.weight.narrow(1, h * left, left), cut.turns[h / kSharing].t()));
  }
  return at::cat(columns, 1);
}

/// Reference by the formulas: each step fits everything that is left to the whole again.
class StepByStep {
 public:
  StepByStep(const Attention& attention, bool in_metric) : F_(attention.F(in_metric)) {
    std::vector<at::Tensor> turns;
    const at::Tensor read = at::mm(attention.weight.t(), at::mm(F_, attention.weight));
    for (int64_t h = 0; h < kHeads.query; ++h) {
      at::Tensor seen = at::zeros({kDim, kDim}, at::kDouble);
      at::Tensor written = at::zeros({kDim, kDim}, at::kDouble);
      for (int64_t other = h / kSharing * kSharing; other < (h / kSharing + 1) * kSharing;
           ++other) {
        seen += block(attention.gram, other);
        written += block(read, other);
      }
      turns.push_back(at::real(std::get<1>(at::linalg_eig(at::mm(written, seen)))));
    }
    T_ = at::block_diag(turns);
    W_ = at::mm(attention.weight, at::linalg_inv(T_).t());
    H_ = at::mm(at::mm(T_.t(), attention.H()), T_);
    for (int64_t c = 0; c < kDim; ++c) left_.insert(left_.end(), {c, kDim + c});
  }

  void remove_one_of_each() {
    const at::Tensor fit = weight();
    std::vector<int64_t> cheapest;
    for (int64_t head = 0; head < kHeads.value; ++head) {
      double least = std::numeric_limits<double>::infinity();
      cheapest.push_back(0);
      for (const int64_t channel : left_) {
        if (channel / kDim != head) continue;
        const double cost = cost_of({channel}, fit);
        if (cost < least) cheapest.back() = channel;
        least = std::min(least, cost);
      }
    }
    loss_increase += 0.5 * cost_of(cheapest, fit);
    for (const int64_t channel : cheapest) std::erase(left_, channel);
  }
  /// Returns the weight on the original values.
  at::Tensor effective() const { return at::mm(weight(), T_.t()); }

  double loss_increase = 0.0;

 private:
  /// Returns the rows of these value-head channels in all query heads.
  static at::Tensor rows_of(const std::vector<int64_t>& channels) {
    std::vector<int64_t> rows;
    for (const int64_t channel : channels) {
      for (int64_t h = 0; h < kSharing; ++h) {
        rows.push_back((channel / kDim * kSharing + h) * kDim + channel % kDim);
      }
    }
    std::ranges::sort(rows);
    return at::tensor(rows, at::kLong);
  }
  at::Tensor square(const at::Tensor& rows) const {
    return H_.index_select(0, rows).index_select(1, rows);
  }
  /// Returns the least-squares fit to the output of the whole; 0 for removed channels.
  at::Tensor weight() const {
    const at::Tensor rows = rows_of(left_);
    const at::Tensor fit =
        at::mm(at::mm(W_, H_.index_select(1, rows)), at::linalg_inv(square(rows)));
    return at::zeros_like(W_).index_copy(1, rows, fit);
  }
  double cost_of(const std::vector<int64_t>& channels, const at::Tensor& fit) const {
    const at::Tensor alive = rows_of(left_);
    const at::Tensor chosen = at::eye(kAll, at::kDouble).index_select(0, alive);
    const at::Tensor inverse = at::mm(chosen.t(), at::mm(at::linalg_inv(square(alive)), chosen));
    const at::Tensor J = rows_of(channels);
    const at::Tensor of_J = fit.index_select(1, J);
    const at::Tensor middle = at::linalg_inv(inverse.index_select(0, J).index_select(1, J));
    return at::mm(middle, at::mm(of_J.t(), at::mm(F_, of_J))).trace().item<double>();
  }

  at::Tensor F_;
  at::Tensor T_;
  at::Tensor W_;
  at::Tensor H_;
  std::vector<int64_t> left_;  ///< channels left in the value heads, as head · kDim + channel
};

class RemovedValues : public testing::TestWithParam<std::tuple<int64_t, bool>> {};

TEST_P(RemovedValues, AreThoseOfTheFormulas) {
  const auto [left, in_metric] = GetParam();
  const Attention attention;
  StepByStep expected(attention, in_metric);
  for (int64_t step = left; step < kDim; ++step) expected.remove_one_of_each();
  const CutValues found =
      remove_values(attention.gram.clone(), attention.weight, attention.L(in_metric), kHeads, left);
  EXPECT_EQ(found.turns.sizes(), (std::vector<int64_t>{2, kDim, left}));
  EXPECT_EQ(found.weight.sizes(), (std::vector<int64_t>{11, kHeads.query * left}));
  EXPECT_LT((effective(found) - expected.effective()).abs().max().item<double>(), 1e-6);
  EXPECT_NEAR(found.predicted_loss_increase, expected.loss_increase, 1e-6 * expected.loss_increase);
  EXPECT_GT(found.predicted_loss_increase, 0.0);
}

INSTANTIATE_TEST_SUITE_P(Sizes, RemovedValues,
                         testing::Combine(testing::Values(6, 4, 1), testing::Bool()));

TEST(ValueRemoval, PredictsTheErrorOfWhatItWritesBack) {
  const Attention attention;
  const CutValues cut =
      remove_values(attention.gram.clone(), attention.weight, attention.metric, kHeads, 3);
  const at::Tensor change = attention.weight - effective(cut);
  const double error =
      0.5 *
      (at::mm(at::mm(change, attention.H()), change.t()) * attention.F(true)).sum().item<double>();
  EXPECT_NEAR(cut.predicted_loss_increase, error, 1e-9 * error);
}

TEST(ValueRemoval, CostsOnItsWayWhatItCostsIfItEndsThere) {
  const Attention attention;
  const std::vector<double> loss_increases = value_removal_loss_increases(
      attention.gram.clone(), attention.weight, attention.metric, kHeads, 1);
  ASSERT_EQ(loss_increases.size(), 7U);
  EXPECT_TRUE(std::ranges::is_sorted(loss_increases));
  for (const int64_t left : {7, 6, 3, 1}) {
    const double expected =
        remove_values(attention.gram.clone(), attention.weight, attention.metric, kHeads, left)
            .predicted_loss_increase;
    EXPECT_NEAR(loss_increases.at(static_cast<size_t>(kDim - left)), expected, 1e-10 * expected);
  }
}

TEST(ValueRemoval, OfAllChannelsCostsAllThatTheyWrite) {
  const Attention attention;
  const std::vector<double> loss_increases = value_removal_loss_increases(
      attention.gram.clone(), attention.weight, attention.metric, kHeads, 0);
  ASSERT_EQ(loss_increases.size(), static_cast<size_t>(kDim) + 1);
  const at::Tensor written = at::mm(at::mm(attention.weight, attention.H()), attention.weight.t());
  const double expected = 0.5 * (written * attention.F(true)).sum().item<double>();
  EXPECT_NEAR(loss_increases.back(), expected, 1e-9 * expected);
}

TEST(ValueRemoval, OfNoChannelChangesNothing) {
  const Attention attention;
  const CutValues cut =
      remove_values(attention.gram.clone(), attention.weight, attention.metric, kHeads, kDim);
  EXPECT_TRUE(at::equal(cut.weight, attention.weight));
  EXPECT_TRUE(at::equal(cut.turns[1], at::eye(kDim, at::kDouble)));
  EXPECT_EQ(cut.predicted_loss_increase, 0.0);
}

/// Two directions of each value head are unread; they are not channels.
TEST(ValueRemoval, WhatNothingReadsGoesForNothing) {
  const Attention attention;
  const at::Tensor unread = at::randn({kHeads.value, kDim, 2}, at::kDouble);
  at::Tensor weight = attention.weight.clone();
  for (int64_t h = 0; h < kHeads.query; ++h) {
    const at::Tensor Q = std::get<0>(at::linalg_qr(unread[h / kSharing]));
    const at::Tensor columns = weight.narrow(1, h * kDim, kDim);
    columns.sub_(at::mm(at::mm(columns, Q), Q.t()));
  }
  const CutValues cut =
      remove_values(attention.gram.clone(), weight, attention.metric, kHeads, kDim - 2);
  EXPECT_LT((effective(cut) - weight).abs().max().item<double>(), 1e-6);
  const CutValues read =
      remove_values(attention.gram.clone(), attention.weight, attention.metric, kHeads, kDim - 2);
  EXPECT_LT(cut.predicted_loss_increase, 1e-8 * read.predicted_loss_increase);
}

TEST(ValueRemoval, NeedsNoTokens) {
  const Attention attention;
  const CutValues cut =
      remove_values(at::zeros_like(attention.gram), attention.weight, attention.metric, kHeads, 3);
  EXPECT_TRUE(at::isfinite(effective(cut)).all().item<bool>());
}

TEST(ValueRemoval, RefusesValuesThatAreNotFinite) {
  Attention attention;
  attention.gram[2][2] = std::numeric_limits<double>::infinity();
  EXPECT_THROW(remove_values(attention.gram, attention.weight, {}, kHeads, 5), NonFiniteError);
}

}  // namespace
}  // namespace dotresize
