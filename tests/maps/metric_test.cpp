#include "worker/maps/metric.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <stdexcept>

#include "base/errors.h"
#include "tests/maps/activations.h"
#include "tests/maps/solve_junction.h"
#include "worker/maps/moments.h"

namespace dotresize {
namespace {

constexpr int64_t kWidth = 40;
constexpr int64_t kTokens = 500;

at::Tensor gram_of(const at::Tensor& x) {
  const at::Tensor exact = x.to(at::kDouble);
  return at::mm(exact.t(), exact);
}

double largest(const at::Tensor& tensor) { return tensor.abs().max().item<double>(); }

at::Tensor eye(int64_t n) { return at::eye(n, at::kDouble); }

/// Activations and gradients with unrelated directions.
struct Junction {
  at::Tensor x = stream_activations(kTokens, kWidth);
  at::Tensor gram = gram_of(x);
  at::Tensor fisher;

  Junction() {
    at::manual_seed(3);
    const at::Tensor mixed = at::randn({kWidth, kWidth}, at::kFloat);
    fisher = gram_of(at::mm(at::randn({kTokens, kWidth}, at::kFloat) *
                                at::arange(1, kWidth + 1, at::kFloat).reciprocal(),
                            mixed));
  }

  JunctionSolution solve(int64_t width) const {
    const MapOptions options{
        .basis = Basis::kPca, .kind = MapKind::kSelection, .metric = Metric::kFisher};
    const at::Tensor L = metric_factor(fisher);
    return solve_junction({.tokens = kTokens, .gram = gram, .metric_factor = L},
                          eigenbasis(gram_in_metric(gram, L)), options, width);
  }

  /// Returns E ‖(x - x·M·M_inv)·F^½‖², where F includes its ridge.
  double loss(const at::Tensor& M, const at::Tensor& M_inv) const {
    const at::Tensor L = metric_factor(fisher);
    const at::Tensor error = at::mm(x.to(at::kDouble), eye(kWidth) - at::mm(M, M_inv));
    return at::mm(error, L).square().sum().item<double>();
  }
};

TEST(Metric, FactorIsThatOfTheFisherMatrixAndItsRidge) {
  const Junction junction;
  const at::Tensor L = metric_factor(junction.fisher);
  const at::Tensor ridged =
      junction.fisher + 0.01 * junction.fisher.diagonal().mean() * eye(kWidth);
  EXPECT_LT(largest(at::mm(L, L.t()) - ridged), 1e-12 * largest(ridged));
  EXPECT_EQ(largest(L.triu(1)), 0.0);
}

TEST(Metric, MapsAreOrthonormalAndTheirInversesOblique) {
  const Junction junction;
  for (const int64_t width : {1, 17, 39}) {
    const JunctionMap map = junction.solve(width).map;
    ASSERT_TRUE(map.oblique);
    EXPECT_TRUE(map.M.is_contiguous());
    EXPECT_LT(largest(at::mm(map.M.t(), map.M) - eye(width)), 1e-12);
    EXPECT_LT(largest(at::mm(map.M_inv, map.M) - eye(width)), 1e-10);
    EXPECT_GT(largest(map.M_inv - map.M.t()), 1e-2);
  }
}

/// The reference uses the symmetric root of F, like the equation.
TEST(Metric, MapIsThatOfTheSymmetricRoot) {
  const Junction junction;
  const int64_t k = 17;
  const at::Tensor L = metric_factor(junction.fisher);
  const auto [values, vectors] = at::linalg_eigh(at::mm(L, L.t()));
  const at::Tensor root = at::mm(vectors * values.sqrt(), vectors.t());
  const at::Tensor inverse = at::mm(vectors * values.rsqrt(), vectors.t());
  const at::Tensor B = std::get<1>(at::linalg_eigh(at::mm(root, at::mm(junction.gram, root))))
                           .narrow(1, kWidth - k, k);
  const auto [Q, R] = at::linalg_qr(at::mm(root, B), "reduced");
  const at::Tensor expected = at::mm(Q, at::mm(R, at::mm(B.t(), inverse)));
  const JunctionMap map = junction.solve(k).map;
  EXPECT_LT(largest(at::mm(map.M, map.M_inv) - expected), 1e-8);
}

TEST(Metric, NoOtherProjectionOfTheWidthLosesLess) {
  const Junction junction;
  const int64_t k = 17;
  const JunctionMap map = junction.solve(k).map;
  const double least = junction.loss(map.M, map.M_inv);
  EXPECT_LT(least, junction.loss(map.M, map.M.t()));
  const at::Tensor pca = eigenbasis(junction.gram).vectors.narrow(1, 0, k);
  EXPECT_LT(least, junction.loss(pca, pca.t()));
  for (int trial = 0; trial < 20; ++trial) {
    const double step = std::ldexp(1.0, -trial);
    const at::Tensor M = map.M + step * at::randn({kWidth, k}, at::kDouble);
    const at::Tensor M_inv = map.M_inv + step * at::randn({k, kWidth}, at::kDouble);
    EXPECT_LE(least, junction.loss(M, M_inv) * (1 + 1e-12)) << step;
  }
}

TEST(Metric, LosesNothingAtFullWidth) {
  const JunctionMap map = Junction().solve(kWidth).map;
  EXPECT_LT(largest(at::mm(map.M, map.M_inv) - eye(kWidth)), 1e-10);
}

TEST(Metric, OfEqualGradientsIsPca) {
  Junction junction;
  junction.fisher = eye(kWidth);
  const int64_t k = 11;
  const JunctionMap map = junction.solve(k).map;
  const at::Tensor pca = eigenbasis(junction.gram).vectors.narrow(1, 0, k);
  EXPECT_LT(largest(at::mm(map.M, map.M_inv) - at::mm(pca, pca.t())), 1e-9);
}

TEST(Metric, DiagnosticsAreThoseOfTheActivations) {
  const Junction junction;
  const JunctionSolution solution = junction.solve(17);
  EXPECT_EQ(solution.diagnostics.effective_rank, effective_rank(spectrum(junction.gram)));
  EXPECT_NEAR(solution.diagnostics.retained_energy, retained_energy(junction.gram, solution.map.M),
              1e-12);
}

TEST(Metric, ChannelsAreChosenByTheirOwnLoss) {
  const Junction junction;
  const MapOptions options{
      .basis = Basis::kIdentity, .kind = MapKind::kSelection, .metric = Metric::kFisher};
  const JunctionSolution solution = solve_junction(
      {.tokens = kTokens, .gram = junction.gram, .fisher = junction.fisher}, {}, options, 9);
  const at::Tensor losses = junction.gram.diagonal() * junction.fisher.diagonal();
  EXPECT_TRUE(at::equal(solution.support, select_support(losses, 9)));
  EXPECT_FALSE(at::equal(solution.support, select_support(junction.gram.diagonal(), 9)));
  EXPECT_FALSE(solution.map.oblique);
}

TEST(Metric, RefusesGradientsThatAreZeroOrNotFinite) {
  EXPECT_THROW(metric_factor(at::zeros({3, 3}, at::kDouble)), std::runtime_error);
  EXPECT_THROW(
      metric_factor(at::full({3, 3}, std::numeric_limits<double>::quiet_NaN(), at::kDouble)),
      NonFiniteError);
}

}  // namespace
}  // namespace dotresize
