// Runs worker/cuda/l1_cost.cu on the CPU: see emulation/cuda_emulation.h.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

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
  if (x.scalar_type() == at::kHalf) {
    emulated_half_l1_cost(x, /*unit=*/1.0, cost);
  } else {
    emulated_l1_cost(x, cost);
  }
  emulated_mirror(cost);
  return cost;
}

double relative_error(const at::Tensor& cost, const at::Tensor& expected) {
  return ((cost - expected).abs() / expected.clamp_min(1e-30)).max().item<double>();
}

class EmulatedL1Cost : public testing::TestWithParam<std::tuple<int64_t, int64_t>> {};

TEST_P(EmulatedL1Cost, AgreesWithFloat64) {
  const auto [tokens, width] = GetParam();
  const at::Tensor x = activations(tokens, width);
  EXPECT_LE(relative_error(cost_of(x), reference(x)), 1e-6);
}

TEST_P(EmulatedL1Cost, InHalfPrecisionIsWithinItsBound) {
  const auto [tokens, width] = GetParam();
  const at::Tensor x = activations(tokens, width).to(at::kHalf);
  EXPECT_LE(relative_error(cost_of(x), reference(x)), 9.0 / 2048);
}

TEST_P(EmulatedL1Cost, InHalfPrecisionComesInTheUnitThatIsAskedFor) {
  const auto [tokens, width] = GetParam();
  const at::Tensor x = activations(tokens, width).to(at::kHalf);
  at::Tensor cost = at::zeros({x.size(1), x.size(1)}, at::kDouble);
  emulated_half_l1_cost(x, /*unit=*/0.125, cost);
  emulated_mirror(cost);
  EXPECT_TRUE(cost.equal(0.125 * cost_of(x)));
}

INSTANTIATE_TEST_SUITE_P(AwkwardSizes, EmulatedL1Cost,
                         testing::Values(std::tuple(1, 1), std::tuple(7, 129), std::tuple(8, 257),
                                         std::tuple(257, 130), std::tuple(300, 13)));

/// Small integers have exact sums in every precision, so any value that a flush loses or adds twice
/// shows.
TEST(EmulatedL1CostOfManyTokens, AreTheReferencesOverSeveralFlushes) {
  constexpr int64_t kTokens = 2 * 1024 + 9;
  at::manual_seed(1);
  const at::Tensor x = at::randint(-2, 3, {kTokens, 3}, at::kFloat);
  for (const at::Tensor& tokens : {x, x.to(at::kHalf)}) {
    EXPECT_TRUE(cost_of(tokens).equal(reference(tokens)));
  }
}

/// Equal terms are the worst case of a float32 sum.
TEST(EmulatedL1Cost, IsAccurateWhereAllTokensAreEqual) {
  at::manual_seed(1);
  const at::Tensor x = at::randn({1, 16}).expand({512, 16}).contiguous();
  EXPECT_LE(relative_error(cost_of(x), reference(x)), 1e-5);
}

}  // namespace
}  // namespace dotresize
