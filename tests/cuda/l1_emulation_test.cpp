// Runs worker/cuda/l1_cost.cu on the CPU: see emulation/cuda_emulation.h.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/cuda/emulation/l1_cost_on_cpu.h"
#include "tests/kernels/random_inputs.h"

namespace dotresize {
namespace {

/// Σ_t |x[t, i] − x[t, j]| in float64.
at::Tensor reference(const at::Tensor& x) {
  const at::Tensor values = x.to(at::kDouble);
  return (values.unsqueeze(2) - values.unsqueeze(1)).abs().sum(0);
}

at::Tensor cost_of(const at::Tensor& x) {
  at::Tensor cost = at::zeros({x.size(1), x.size(1)}, at::kDouble);
  emulated_l1_cost(x, cost);
  emulated_mirror(cost);
  return cost;
}

/// Returns the largest error of a cost, in multiples of the bound for it.
double error_of(const at::Tensor& x) {
  const double bound = static_cast<double>(x.size(0)) * 0x1p-21 * x.abs().max().item<double>();
  return (cost_of(x) - reference(x)).abs().max().item<double>() / bound;
}

class EmulatedL1Cost : public testing::TestWithParam<std::tuple<int64_t, int64_t>> {};

TEST_P(EmulatedL1Cost, IsWithinItsBound) {
  const auto [tokens, width] = GetParam();
  const at::Tensor x = activations(tokens, width);
  EXPECT_LE(error_of(x), 1.0);
  at::Tensor cost = cost_of(x);
  emulated_l1_cost(x, cost);
  EXPECT_TRUE(cost.triu().equal(2 * cost_of(x).triu())) << "it adds to what is there";
}

INSTANTIATE_TEST_SUITE_P(AwkwardSizes, EmulatedL1Cost,
                         testing::Values(std::tuple(1, 1), std::tuple(7, 129), std::tuple(8, 257),
                                         std::tuple(257, 130), std::tuple(300, 13)));

TEST(EmulatedL1Cost, IsAccurateForChannelsOfOneScale) {
  const at::Tensor x = activations(600, 40);
  EXPECT_LE(((cost_of(x) - reference(x)).abs() / reference(x)).nan_to_num(0.0).max().item<double>(),
            1e-6);
}

/// The errors of many tokens cancel, beside an outlier of a residual stream too.
TEST(EmulatedL1Cost, IsFarBetterThanItsBoundOverManyTokens) {
  at::Tensor x = activations(2000, 30) * at::linspace(-4, 0, 30).exp();
  EXPECT_LE(error_of(x), 0.05);
  x[0][3] = 1e4;
  EXPECT_LE(error_of(x), 0.05);
}

/// Multiples of the unit have exact sums, so any value that a flush loses or adds twice shows.
TEST(EmulatedL1Cost, IsExactForIntegersOverSeveralFlushes) {
  at::manual_seed(1);
  const at::Tensor x = at::randint(-4'000'000, 4'000'001, {2 * 512 + 9, 3}, at::kFloat);
  EXPECT_TRUE(cost_of(x).equal(reference(x)));
}

TEST(EmulatedL1Cost, ScalesExactly) {
  const at::Tensor x = activations(20, 30);
  const at::Tensor cost = cost_of(x);
  for (const int exponent : {-90, -7, 1, 100}) {
    const double scale = std::exp2(exponent);
    EXPECT_TRUE(cost_of(x * scale).equal(cost * scale)) << exponent;
  }
}

/// Tokens of the largest possible differences, more than are summed before a flush.
TEST(EmulatedL1Cost, OfTheLargestMagnitudesDoesNotOverflow) {
  constexpr float kLargest = std::numeric_limits<float>::max();
  for (const float largest : {1.0f, 0x1.fffff8p21f, 0x1.fffffap21f, 0x1.fffffep21f, kLargest}) {
    const at::Tensor x = at::tensor({largest, -largest}).expand({1024, 2}).contiguous();
    EXPECT_NEAR(cost_of(x)[0][1].item<double>() / (2048.0 * largest), 1.0, 1e-6) << largest;
  }
}

TEST(EmulatedL1Cost, OfZerosIsZeroAndOfTheSmallestNumbersHasAUnitOfItsOwn) {
  EXPECT_TRUE(cost_of(at::zeros({9, 5})).equal(at::zeros({5, 5}, at::kDouble)));
  const at::Tensor x = activations(9, 5) * 0x1p-124;
  EXPECT_LE((cost_of(x) - reference(x)).abs().max().item<double>(), 9 * 0x1p-127);
}

TEST(EmulatedL1Cost, IsNanIfANumberIsNotFinite) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (const float broken : {kInfinity, -kInfinity, std::numeric_limits<float>::quiet_NaN()}) {
    at::Tensor x = activations(9, 140);
    x[5][7] = broken;
    EXPECT_TRUE(cost_of(x).isnan().all().item<bool>()) << broken;
  }
}

}  // namespace
}  // namespace dotresize
