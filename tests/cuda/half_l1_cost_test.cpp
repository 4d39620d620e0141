// Tests of costs in half precision, from the scaling of activations to a junction's report. The
// kernel is the GPU's own, run by the CPU: see emulation/cuda_emulation.h.

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <limits>
#include <optional>
#include <utility>

#include "tests/cuda/emulation/l1_cost_on_cpu.h"
#include "worker/calibration/junction_passes.h"
#include "worker/kernels/cuda_kernels.h"
#include "worker/kernels/l1_cost.h"

namespace dotresize {
namespace {

constexpr int64_t kWidth = 60;

class HalfL1Cost : public testing::Test {
 protected:
  HalfL1Cost() {
    set_cuda_kernels({.add_l1_cost = emulated_l1_cost, .add_half_l1_cost = emulated_half_l1_cost});
  }
  ~HalfL1Cost() override { set_cuda_kernels({}); }
};

at::Tensor activations(int64_t tokens) {
  at::manual_seed(tokens);
  return at::randn({tokens, kWidth}) * at::linspace(-4, 0, kWidth).exp();
}

at::Tensor half_cost(const at::Tensor& x) {
  at::Tensor cost = at::zeros({kWidth, kWidth}, at::kDouble);
  add_half_l1_cost(x, cost);
  return cost.triu();
}

at::Tensor exact_cost(const at::Tensor& x) {
  at::Tensor cost = at::zeros({kWidth, kWidth}, at::kDouble);
  add_l1_cost(x, cost);
  return cost.triu();
}

double relative_error(const at::Tensor& x) {
  const at::Tensor exact = exact_cost(x);
  return ((half_cost(x) - exact).abs() / exact.clamp_min(1e-300)).max().item<double>();
}

/// Makes two channels of x differ by less than float16 can represent.
at::Tensor with_near_twins(at::Tensor x) {
  x.select(1, 7).copy_(x.select(1, 3) * (1 + 1e-5));
  return x;
}

TEST_F(HalfL1Cost, IsAccurateForChannelsOfAnySize) {
  const double error = relative_error(activations(600));
  EXPECT_GT(error, 0.0);
  EXPECT_LT(error, kMaxHalfL1CostError);
}

TEST_F(HalfL1Cost, AddsToWhatIsThere) {
  const at::Tensor x = activations(20);
  at::Tensor cost = half_cost(x);
  add_half_l1_cost(x, cost);
  EXPECT_TRUE(cost.triu().equal(2 * half_cost(x)));
}

/// The kernel sees the same numbers at every scale, so costs agree bit by bit.
TEST_F(HalfL1Cost, ScalesExactly) {
  const at::Tensor x = activations(20);
  const at::Tensor cost = half_cost(x);
  for (const int exponent : {-90, -7, 1, 100}) {
    const double scale = std::exp2(exponent);
    EXPECT_TRUE(half_cost(x * scale).equal(cost * scale)) << exponent;
  }
}

TEST_F(HalfL1Cost, TakesTheLargestMagnitudesWithoutOverflow) {
  for (const double largest : {4093.9, 4094.0, 4094.1, 4095.0, 4096.0, 3.4e38}) {
    at::Tensor x = activations(16) / 100;
    x.select(1, 0).fill_(largest);
    x.select(1, 1).fill_(-largest);
    EXPECT_NEAR(half_cost(x)[0][1].item<double>() / (32 * largest), 1.0, 1e-3) << largest;
  }
}

TEST_F(HalfL1Cost, OutliersOfAResidualStreamDoNotDrownTheRest) {
  at::Tensor x = activations(512);
  x.select(1, 5).mul_(1e4);
  for (const int64_t channel : {9, 30}) x.select(1, channel)[0] = 4000;  // the first token only
  EXPECT_LT(relative_error(x), kMaxHalfL1CostError);
}

TEST_F(HalfL1Cost, ErrorIsThatOfTheFirstTokens) {
  const at::Tensor x = activations(512);
  EXPECT_EQ(half_l1_cost_error(x), relative_error(x));
  EXPECT_EQ(half_l1_cost_error(at::cat({x, with_near_twins(activations(30))})), relative_error(x));
}

TEST_F(HalfL1Cost, ErrorTellsIfDifferencesAreLost) {
  EXPECT_GT(half_l1_cost_error(with_near_twins(activations(100))), 0.1);
  EXPECT_GT(half_l1_cost_error(at::cat({activations(9), activations(9) * 1e-9})), 0.0);
  EXPECT_EQ(half_l1_cost_error(at::zeros({5, kWidth})), 0.0);
  at::Tensor broken = activations(5);
  broken[2][2] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_FALSE(half_l1_cost_error(broken) <= kMaxHalfL1CostError);
}

TEST_F(HalfL1Cost, MomentsInHalfPrecisionAreReproducible) {
  const at::Tensor x = activations(300);
  const auto cost_in_order = [&](const std::vector<int64_t>& order) {
    Moments moments(kWidth, {.sums = {.abs_sum = true, .cost = true}}, at::kCPU,
                    {.half_cost = true, .reproducible = SumBounds{300, 100.0}});
    for (const int64_t first : order) moments.add(x.narrow(0, first, 100));
    return moments.cost.triu();
  };
  const at::Tensor cost = cost_in_order({0, 100, 200});
  EXPECT_TRUE(cost.equal(cost_in_order({200, 0, 100})));
  const at::Tensor exact = exact_cost(x);
  EXPECT_FALSE(cost.equal(exact));
  EXPECT_LT(((cost - exact).abs().max() / exact.max()).item<double>(), kMaxHalfL1CostError);
}

/// One junction, solved in both passes if its method has two.
class HalfCostsOfAJunction : public HalfL1Cost, public testing::WithParamInterface<Basis> {
 protected:
  JunctionSolution solve(const at::Tensor& x, const CostPrecision& precision) {
    const JunctionSetup setup{3, kWidth, map_, clock_};
    FirstPass first(setup, precision);
    for (const at::Tensor& batch : x.split(100)) first.add(batch);
    DecomposedJunction junction = std::move(first).finish(x.size(0));
    std::optional<CostSums> second;
    if (map_.sums().second.any()) {
      second.emplace(setup, precision, junction.rotation());
      for (const at::Tensor& batch : x.split(100)) second->add(batch);
    }
    return std::move(junction).solve(40, std::move(second)).solution;
  }

  MapOptions map_{.basis = GetParam()};
  PhaseClock clock_;
};

TEST_P(HalfCostsOfAJunction, AreTakenIfTheirErrorIsAccepted) {
  const CostPrecision half = CostPrecision::from_half_error(kMaxHalfL1CostError);
  const MapDiagnostics found = solve(activations(200), half).diagnostics;
  EXPECT_TRUE(found.half_cost);
  EXPECT_EQ(found.half_cost_error, kMaxHalfL1CostError);
  constexpr double kPairs = 200.0 * kWidth * kWidth / 2;
  EXPECT_EQ(clock_.work, (std::map<std::string, double>{{"cost_float16", kPairs}}));
}

TEST_P(HalfCostsOfAJunction, AreNotTakenUnasked) {
  const MapDiagnostics found = solve(activations(200), {}).diagnostics;
  EXPECT_FALSE(found.half_cost);
  EXPECT_FALSE(found.half_cost_error.has_value());
  EXPECT_EQ(clock_.work.count("cost"), 1);
}

TEST_P(HalfCostsOfAJunction, AreNotTakenIfTheirErrorIsRefused) {
  const at::Tensor x = activations(200);
  const JunctionSolution solution =
      solve(x, CostPrecision::from_half_error(2 * kMaxHalfL1CostError));
  EXPECT_FALSE(solution.diagnostics.half_cost);
  EXPECT_EQ(solution.diagnostics.half_cost_error, 2 * kMaxHalfL1CostError);
  EXPECT_TRUE(solution.map.M.equal(solve(x, {}).map.M));
}

/// The error is that of a sample of the activations, in the basis of the costs.
TEST_P(HalfCostsOfAJunction, HaveTheErrorOfASample) {
  const at::Tensor x = activations(200);
  const at::Tensor rotation =
      GetParam() == Basis::kPca ? std::get<0>(at::linalg_qr(activations(kWidth))) : at::Tensor();
  const double error = half_cost_error({3, kWidth, map_, clock_}, x, rotation);
  EXPECT_EQ(error, half_l1_cost_error(rotation.defined() ? at::matmul(x, rotation) : x));
  EXPECT_TRUE(CostPrecision::from_half_error(error).half);
}

INSTANTIATE_TEST_SUITE_P(Bases, HalfCostsOfAJunction,
                         testing::Values(Basis::kIdentity, Basis::kPca));

TEST_F(HalfL1Cost, JunctionWithNearTwinsIsTakenInFloat32) {
  PhaseClock clock;
  const MapOptions map{.basis = Basis::kIdentity};
  const JunctionSetup setup{0, kWidth, map, clock};
  const at::Tensor x = with_near_twins(activations(100));
  FirstPass first(setup, CostPrecision::from_half_error(half_cost_error(setup, x, {})));
  first.add(x);
  EXPECT_TRUE(first.sums().back().triu().equal(exact_cost(x)));
}

}  // namespace
}  // namespace dotresize
