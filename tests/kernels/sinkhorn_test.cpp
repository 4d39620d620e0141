#include "worker/kernels/sinkhorn.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <hwy/highway.h>

#include <cmath>
#include <limits>
#include <stdexcept>
#include <utility>

#include "tests/kernels/random_inputs.h"

namespace dotresize {
namespace {

/// Runs Sinkhorn entirely in the log domain for a given number of iterations.
at::Tensor reference_plan(const at::Tensor& cost, double lambda, int64_t iterations) {
  const double log_row = -std::log(static_cast<double>(cost.size(0)));
  const double log_column = -std::log(static_cast<double>(cost.size(1)));
  const at::Tensor kernel = -cost / lambda;
  at::Tensor alpha = at::zeros({cost.size(0), 1}, at::kDouble);
  at::Tensor beta = at::zeros({1, cost.size(1)}, at::kDouble);
  for (int64_t i = 0; i < iterations; ++i) {
    alpha = log_row - (kernel + beta).logsumexp(1, /*keepdim=*/true);
    beta = log_column - (kernel + alpha).logsumexp(0, /*keepdim=*/true);
  }
  return (kernel + alpha + beta).exp();
}

double row_violation(const at::Tensor& plan) {
  return (plan.sum(1) - 1.0 / static_cast<double>(plan.size(0))).abs().sum().item<double>();
}

double column_violation(const at::Tensor& plan) {
  return (plan.sum(0) - 1.0 / static_cast<double>(plan.size(1))).abs().sum().item<double>();
}

double max_difference(const at::Tensor& a, const at::Tensor& b) {
  return (a - b).abs().max().item<double>();
}

class SinkhornAtLambda : public testing::TestWithParam<double> {};

TEST_P(SinkhornAtLambda, KeepsTheMarginals) {
  const SinkhornResult result = sinkhorn(random_cost(60, 41), {.lambda = GetParam()});
  ASSERT_TRUE(result.converged);
  EXPECT_LE(row_violation(result.plan), 1e-8);
  EXPECT_LE(column_violation(result.plan), 1e-14);
  EXPECT_NEAR(result.violation, row_violation(result.plan), 1e-14);
}

TEST_P(SinkhornAtLambda, AgreesWithTheLogDomain) {
  const at::Tensor cost = random_cost(60, 41);
  const SinkhornResult result = sinkhorn(cost, {.lambda = GetParam()});
  const at::Tensor reference = reference_plan(cost, GetParam(), result.iterations);
  EXPECT_LE(max_difference(result.plan, reference), 1e-13);
}

TEST_P(SinkhornAtLambda, StopsAtTheFirstIterationThatIsGoodEnough) {
  const at::Tensor cost = random_cost(60, 41);
  const SinkhornResult result = sinkhorn(cost, {.lambda = GetParam()});
  ASSERT_GT(result.iterations, 1);
  EXPECT_GT(row_violation(reference_plan(cost, GetParam(), result.iterations - 1)), 1e-8);
}

INSTANTIATE_TEST_SUITE_P(Lambdas, SinkhornAtLambda, testing::Values(0.01, 0.1, 1.0, 10.0));

class SinkhornAtScale : public testing::TestWithParam<double> {};

/// The kernel underflows entirely (exp(−1e6) is 0), and columns differ by as much.
TEST_P(SinkhornAtScale, AgreesWithTheLogDomainHoweverLargeTheCost) {
  const at::Tensor cost = GetParam() * (random_cost(30, 17) + at::arange(17) / 17.0);
  for (const int64_t iterations : {1, 2, 3, 10, 300}) {
    const SinkhornResult result = sinkhorn(cost, {.lambda = 0.1, .max_iterations = iterations});
    const at::Tensor reference = reference_plan(cost, 0.1, iterations);
    EXPECT_EQ(result.iterations, iterations);
    EXPECT_LE(max_difference(result.plan, reference), 1e-15 * GetParam()) << iterations;
    EXPECT_NEAR(result.violation, row_violation(reference), 1e-13 * GetParam()) << iterations;
    EXPECT_LE(column_violation(result.plan), 1e-15) << iterations;
  }
}

INSTANTIATE_TEST_SUITE_P(Scales, SinkhornAtScale, testing::Values(1e2, 1e3, 1e4, 1e5));

class SinkhornAtSize : public testing::TestWithParam<std::pair<int64_t, int64_t>> {};

TEST_P(SinkhornAtSize, AgreesWithTheLogDomain) {
  const at::Tensor cost = random_cost(GetParam().first, GetParam().second);
  const SinkhornResult result = sinkhorn(cost, {.lambda = 0.1});
  ASSERT_TRUE(result.converged);
  const at::Tensor reference = reference_plan(cost, 0.1, result.iterations);
  EXPECT_LE(max_difference(result.plan, reference), 1e-13);
}

INSTANTIATE_TEST_SUITE_P(AwkwardSizes, SinkhornAtSize,
                         testing::Values(std::pair{2, 1}, std::pair{17, 13}, std::pair{131, 128},
                                         std::pair{1103, 29}));

TEST(Sinkhorn, DoesNotDependOnTheNumberOfThreads) {
  const at::Tensor cost = random_cost(1103, 29);
  const int threads = at::get_num_threads();
  at::set_num_threads(1);
  const SinkhornResult alone = sinkhorn(cost, {.lambda = 0.05});
  at::set_num_threads(5);
  const SinkhornResult shared = sinkhorn(cost, {.lambda = 0.05});
  at::set_num_threads(threads);
  EXPECT_TRUE(alone.plan.equal(shared.plan));
  EXPECT_EQ(alone.iterations, shared.iterations);
}

TEST(Sinkhorn, IsTheSameOnEveryInstructionSetButForRounding) {
  const at::Tensor cost = random_cost(67, 41);
  const SinkhornResult result = sinkhorn(cost, {});
  for (const int64_t target : hwy::SupportedAndGeneratedTargets()) {
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().DeInit();
    const SinkhornResult other = sinkhorn(cost, {});
    EXPECT_EQ(other.iterations, result.iterations) << hwy::TargetName(target);
    EXPECT_LE(max_difference(other.plan, result.plan), 1e-15) << hwy::TargetName(target);
  }
  hwy::SetSupportedTargetsForTest(0);
  hwy::GetChosenTarget().DeInit();
}

/// Two rows share a column, one row has two columns to itself, and all else is expensive. Scalings
/// double with each iteration and leave [1e-100, 1e100] after about 330, until mass flows across.
TEST(Sinkhorn, AbsorbsScalingsThatGrowOutOfRange) {
  const at::Tensor cost =
      at::tensor({0.0, 1000.0, 1050.0, 2.0, 1100.0, 1001.0, 1030.0, 0.0, 1.0}, at::kDouble)
          .view({3, 3});
  for (const int64_t iterations : {300, 340, 350, 700, 800}) {
    const SinkhornResult result = sinkhorn(cost, {.lambda = 1.0, .max_iterations = iterations});
    const at::Tensor reference = reference_plan(cost, 1.0, result.iterations);
    EXPECT_LE(max_difference(result.plan, reference), 1e-11) << iterations;
    EXPECT_EQ(result.converged, iterations == 800) << result.iterations;
  }
}

TEST(Sinkhorn, ReportsThatItDidNotConverge) {
  const at::Tensor cost = random_cost(60, 41);
  const SinkhornResult result = sinkhorn(cost, {.lambda = 0.01, .max_iterations = 5});
  EXPECT_FALSE(result.converged);
  EXPECT_EQ(result.iterations, 5);
  EXPECT_GT(result.violation, 1e-8);
  EXPECT_NEAR(result.violation, row_violation(result.plan), 1e-14);
}

TEST(Sinkhorn, DoesNotClaimATighterToleranceThanItReached) {
  const SinkhornResult result =
      sinkhorn(random_cost(60, 41), {.lambda = 1.0, .tolerance = 0.0, .max_iterations = 200});
  EXPECT_EQ(result.converged, result.violation <= 0.0);
  EXPECT_LE(result.violation, 1e-13);
}

TEST(Sinkhorn, OfAConstantCostIsUniform) {
  const SinkhornResult result = sinkhorn(at::full({5, 3}, 7.0, at::kDouble), {});
  EXPECT_TRUE(result.converged);
  EXPECT_LE(max_difference(result.plan, at::full({5, 3}, 1.0 / 15, at::kDouble)), 1e-16);
}

TEST(Sinkhorn, OfOneColumnIsTheRowMarginal) {
  const SinkhornResult result = sinkhorn(random_cost(7, 1), {});
  EXPECT_TRUE(result.converged);
  EXPECT_LE(max_difference(result.plan, at::full({7, 1}, 1.0 / 7, at::kDouble)), 1e-16);
}

TEST(Sinkhorn, RefusesWhatHasNoPlan) {
  at::Tensor cost = random_cost(4, 3);
  EXPECT_THROW(sinkhorn(cost, {.lambda = 0.0}), c10::Error);
  EXPECT_THROW(sinkhorn(cost, {.max_iterations = 0}), c10::Error);
  EXPECT_THROW(sinkhorn(cost.to(at::kFloat), {}), c10::Error);
  cost[1][2] = std::numeric_limits<double>::infinity();
  EXPECT_THROW(sinkhorn(cost, {}), std::runtime_error);
}

}  // namespace
}  // namespace dotresize
