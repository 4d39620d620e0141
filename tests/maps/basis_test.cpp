#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <stdexcept>

#include "tests/maps/activations.h"
#include "worker/maps/describe/spectrum.h"

namespace dotresize {
namespace {

at::Tensor gram_matrix(int64_t width) {
  const at::Tensor x = stream_activations(500, width).to(at::kDouble);
  return at::mm(x.t(), x) / 500;
}

double largest(const at::Tensor& tensor) { return tensor.abs().max().item<double>(); }

TEST(Eigenbasis, DiagonalisesTheGramMatrix) {
  const at::Tensor gram = gram_matrix(37);
  const Eigenbasis basis = eigenbasis(gram);
  const at::Tensor& U = basis.vectors;
  EXPECT_LE(largest(at::mm(U * basis.values, U.t()) - gram), 1e-12 * largest(gram));
  EXPECT_LE(largest(at::mm(U.t(), U) - at::eye(37, at::kDouble)), 1e-13);
}

TEST(Eigenbasis, LeadsWithTheLargestEigenvalue) {
  const at::Tensor values = eigenbasis(gram_matrix(37)).values;
  EXPECT_TRUE((values.slice(0, 0, -1) >= values.slice(0, 1)).all().item<bool>());
}

TEST(Eigenbasis, MakesTheLargestEntryOfEachVectorPositive) {
  const at::Tensor U = eigenbasis(gram_matrix(37)).vectors;
  EXPECT_TRUE(std::get<0>(U.max(0)).equal(std::get<0>(U.abs().max(0))));
}

/// The second eigenvector is (a, −a): two entries of exactly equal magnitude and unknown sign.
TEST(Eigenbasis, MakesTheFirstOfEqualEntriesPositive) {
  const at::Tensor gram = at::tensor({2.0, 1.0, 1.0, 2.0}, at::kDouble).view({2, 2});
  const at::Tensor U = eigenbasis(gram).vectors;
  ASSERT_EQ(U[0][1].item<double>(), -U[1][1].item<double>());
  EXPECT_GT(U[0][1].item<double>(), 0);
}

TEST(Eigenbasis, RefusesWhatIsNotFinite) {
  at::Tensor gram = gram_matrix(5);
  gram[1][1] = std::numeric_limits<double>::quiet_NaN();
  EXPECT_THROW(eigenbasis(gram), std::runtime_error);
  EXPECT_THROW(eigenbasis(gram_matrix(5).to(at::kFloat)), c10::Error);
}

TEST(EffectiveRank, CountsTheEigenvaluesThatHoldTheShare) {
  const at::Tensor values = at::tensor({90.0, 9.0, 0.9, 0.1}, at::kDouble);
  EXPECT_EQ(effective_rank(values, 0.90), 1);
  EXPECT_EQ(effective_rank(values, 0.95), 2);
  EXPECT_EQ(effective_rank(values), 2);
  EXPECT_EQ(effective_rank(values, 0.995), 3);
  EXPECT_EQ(effective_rank(values, 1.0), 4);
}

TEST(EnergyOverRank, IsTheShareOfTheLeadingEigenvalues) {
  using testing::DoubleEq;
  using testing::ElementsAre;
  using testing::Pair;
  EXPECT_THAT(energy_over_rank(at::tensor({4.0, 2.0, 1.0, 1.0}, at::kDouble)),
              ElementsAre(Pair(1, DoubleEq(0.5)), Pair(2, DoubleEq(0.75)), Pair(3, DoubleEq(0.875)),
                          Pair(4, DoubleEq(1.0))));
  EXPECT_THAT(energy_over_rank(at::ones({1}, at::kDouble)), ElementsAre(Pair(1, 1.0)));
  const EnergyOverRank many = energy_over_rank(at::ones({8192}, at::kDouble));
  EXPECT_LE(many.size(), 32u);
  EXPECT_EQ(many.front(), std::pair(int64_t{1}, 1.0 / 8192));
  EXPECT_EQ(many.back(), std::pair(int64_t{8192}, 1.0));
}

TEST(EffectiveRank, OfNothingIsZero) { EXPECT_EQ(effective_rank(at::zeros({3}, at::kDouble)), 0); }

}  // namespace
}  // namespace dotresize
