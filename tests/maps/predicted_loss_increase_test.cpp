#include "worker/maps/describe/predicted_loss_increase.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "worker/maps/alignment.h"
#include "worker/maps/describe/spectrum.h"
#include "worker/maps/metric.h"

namespace dotresize {
namespace {

constexpr int64_t kChannels = 24;
const std::vector<int64_t> kWidths = {8, 16, 24};

at::Tensor random_moments(double spread) {
  const at::Tensor x = at::randn({200, kChannels}, at::kDouble) *
                       at::linspace(0.0, spread, kChannels, at::kDouble).exp();
  const at::Tensor mixed = at::mm(x, at::randn({kChannels, kChannels}, at::kDouble));
  return at::mm(mixed.t(), mixed) / 200.0;
}

struct Sums {
  at::Tensor gram;
  at::Tensor fisher = random_moments(0.0);

  MetricBasis basis() const {
    const at::Tensor factor = metric_factor(fisher);
    const Eigenbasis found = eigenbasis(gram_in_metric(gram, factor));
    return {found.values, found.vectors, factor};
  }
  /// Returns the loss per token of these moments through this junction's map of width k.
  double lost(const at::Tensor& moments, int64_t k) const {
    const MetricBasis found = basis();
    const JunctionMap map = map_from_metric(found.factor, found.vectors.narrow(1, 0, k));
    const at::Tensor rest = at::eye(kChannels, at::kDouble) - at::mm(map.M, map.M_inv);
    const at::Tensor errors = at::mm(rest.t(), at::mm(moments, rest));
    return 0.5 * (errors * fisher).sum().item<double>();
  }
  at::Tensor kept(int64_t k) const {
    const MetricBasis found = basis();
    const JunctionMap map = map_from_metric(found.factor, found.vectors.narrow(1, 0, k));
    return at::mm(map.M, map.M_inv);
  }
};

TEST(PredictedLossIncrease, OfTheFirstJunctionIsWhatItsMapLeavesOut) {
  at::manual_seed(1);
  const Sums junction{random_moments(-3.0)};
  const at::Tensor loss_increases = loss_increases_of_first(junction.basis(), kWidths);
  for (int64_t i = 0; i < 3; ++i) {
    const double expected = junction.lost(junction.gram, kWidths[static_cast<size_t>(i)]);
    EXPECT_NEAR(loss_increases[i].item<double>(), expected, 1e-9 * (1.0 + expected));
  }
  EXPECT_EQ(loss_increases[2].item<double>(), 0.0);
}

TEST(PredictedLossIncrease, BehindAnotherOnlyWhatIsStillThere) {
  at::manual_seed(2);
  const Sums before{random_moments(-3.0)};
  const at::Tensor written = random_moments(-3.0);
  const Sums junction{before.gram + written};
  const at::Tensor loss_increases =
      loss_increases_behind(before.basis(), junction.basis(), kWidths);
  for (int64_t in = 0; in < 3; ++in) {
    const at::Tensor P = before.kept(kWidths[static_cast<size_t>(in)]);
    const at::Tensor reached = at::mm(P.t(), at::mm(before.gram, P)) + written;
    for (int64_t out = 0; out < 3; ++out) {
      const double expected = junction.lost(reached, kWidths[static_cast<size_t>(out)]);
      EXPECT_NEAR(loss_increases[in][out].item<double>(), expected, 0.03 * expected + 1e-9);
    }
  }
  // A junction of full width removes nothing before.
  const at::Tensor alone = loss_increases_of_first(junction.basis(), kWidths);
  EXPECT_LT((loss_increases[2] - alone).abs().max().item<double>(), 1e-9);
  EXPECT_LT(loss_increases[0][0].item<double>(), alone[0].item<double>());
}

TEST(PredictedLossIncrease, OfASharedMapIsThatOfWhatTheSublayerWrites) {
  at::manual_seed(3);
  const at::Tensor before = random_moments(-3.0);
  const Sums junction{before + random_moments(-3.0)};
  const Sums map{random_moments(-3.0)};
  const at::Tensor loss_increases =
      loss_increases_of_shared(map.basis(), junction.gram, before, junction.fisher, kWidths);
  const at::Tensor first =
      loss_increases_of_shared(map.basis(), before, at::Tensor(), junction.fisher, kWidths);
  for (int64_t i = 0; i < 2; ++i) {
    const at::Tensor rest =
        at::eye(kChannels, at::kDouble) - map.kept(kWidths[static_cast<size_t>(i)]);
    const auto lost = [&](const at::Tensor& moments) {
      const at::Tensor errors = at::mm(rest.t(), at::mm(moments, rest));
      return 0.5 * (errors * junction.fisher).sum().item<double>();
    };
    EXPECT_NEAR(loss_increases[i].item<double>(), lost(junction.gram - before), 1e-9);
    EXPECT_NEAR(first[i].item<double>(), lost(before), 1e-9);
  }
  EXPECT_EQ(loss_increases[2].item<double>(), 0.0);
}

/// Returns the loss of a shortcut of this rank, computed from the matrices themselves.
double lost_by_rank(const Sums& before, const JunctionMap& in, const Sums& junction,
                    const JunctionMap& out, int64_t rank) {
  const Alignment cut = align_oblique(in, out.M, rank);
  at::Tensor stored = at::zeros({in.M.size(1), out.M.size(1)}, at::kDouble);
  stored.diagonal().fill_(1.0);
  stored += at::mm(cut.A, cut.B);
  const at::Tensor missing = at::mm(in.M_inv, out.M) - at::mm(stored, cut.turn.t());
  const at::Tensor error = at::mm(at::mm(in.M, missing), out.M_inv);  // error of a token x
  return 0.5 *
         (at::mm(error.t(), at::mm(before.gram, error)) * junction.fisher).sum().item<double>();
}

TEST(PredictedLossIncrease, OfARankIsWhatTheShortcutLeavesOut) {
  at::manual_seed(4);
  const Sums before{random_moments(-3.0)};
  const Sums junction{before.gram + random_moments(-3.0)};
  const auto map = [](const Sums& of, int64_t k) {
    const MetricBasis found = of.basis();
    return map_from_metric(found.factor, found.vectors.narrow(1, 0, k));
  };
  const std::vector<int64_t> ranks = {8, 4, 3, 1, 0};
  for (const auto& [k_in, k_out] : {std::pair(18, 18), {20, 17}, {17, 20}}) {
    const at::Tensor loss_increases =
        loss_increases_of_ranks(before.basis(), map_of(before.basis(), k_in), junction.basis(),
                                map_of(junction.basis(), k_out), ranks);
    for (size_t i = 0; i < ranks.size(); ++i) {
      const int64_t rank = ranks[i] + std::max(0, k_in - k_out);
      const double expected =
          lost_by_rank(before, map(before, k_in), junction, map(junction, k_out), rank);
      EXPECT_NEAR(loss_increases[static_cast<int64_t>(i)].item<double>(), expected,
                  1e-9 * (1.0 + expected))
          << k_in << " to " << k_out << ", rank " << ranks[i];
    }
    EXPECT_LT(loss_increases[0].item<double>(), 1e-9);
    EXPECT_GT(loss_increases[4].item<double>(), 1e-3);
  }
}

}  // namespace
}  // namespace dotresize
