#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>

#include "tests/maps/activations.h"
#include "worker/kernels/l1_cost.h"
#include "worker/maps/map_algorithm.h"

namespace dotresize {
namespace {

constexpr int64_t kWidth = 48;

/// Returns columns `0..k-1` of the summed l1 cost of 48 channels.
at::Tensor cost_columns(int64_t k) {
  at::Tensor cost = at::zeros({kWidth, kWidth}, at::kDouble);
  add_l1_cost(stream_activations(600, kWidth), cost);
  return cost.narrow(1, 0, k);
}

at::Tensor eye(int64_t n) { return at::eye(n, at::kDouble); }

double largest(const at::Tensor& tensor) { return tensor.abs().max().item<double>(); }

MapOptions with_lambda(double lambda) {
  MapOptions options;
  options.sinkhorn.lambda = lambda;
  return options;
}

at::Tensor plan(const at::Tensor& cost, const MapOptions& options) {
  return transport_map(cost, options).sinkhorn.plan;
}

class TransportMapAtLambda : public testing::TestWithParam<double> {};

TEST_P(TransportMapAtLambda, IsOrthonormal) {
  const TransportMap map = transport_map(cost_columns(37), with_lambda(GetParam()));
  EXPECT_LE(largest(at::mm(map.Q.t(), map.Q) - eye(37)), 1e-13);
}

TEST_P(TransportMapAtLambda, KeepsTheMarginals) {
  const at::Tensor T = transport_map(cost_columns(37), with_lambda(GetParam())).sinkhorn.plan;
  EXPECT_LE((T.sum(1) - 1.0 / kWidth).abs().sum().item<double>(), 1e-8);
  EXPECT_LE((T.sum(0) - 1.0 / 37).abs().sum().item<double>(), 1e-8);
}

TEST_P(TransportMapAtLambda, IsTheQrOfThePlan) {
  const TransportMap map = transport_map(cost_columns(37), with_lambda(GetParam()));
  EXPECT_LE(largest(at::mm(map.Q, map.R) - map.sinkhorn.plan), 1e-15);
  EXPECT_EQ(largest(map.R.tril(-1)), 0);
  EXPECT_TRUE((map.R.diagonal() >= 0).all().item<bool>());
}

/// Justifies M_inv = Mᵀ, where the paper has R T⁺ Uᵀ.
TEST_P(TransportMapAtLambda, HasRTimesThePseudoinverseOfTEqualToQTransposed) {
  const TransportMap map = transport_map(cost_columns(37), with_lambda(GetParam()));
  const at::Tensor singular_values = at::linalg_svdvals(map.R);
  const double condition = (singular_values[0] / singular_values[36]).item<double>();
  EXPECT_LE(largest(at::mm(map.R, at::linalg_pinv(map.sinkhorn.plan)) - map.Q.t()),
            1e-14 * condition);
}

/// Full rank depends on the kernel, not on convergence, which takes more than 10000 iterations at λ
/// = 0.01 and full width.
TEST_P(TransportMapAtLambda, HasFullRankAtFullWidth) {
  MapOptions options = with_lambda(GetParam());
  options.accept_nonconvergence = true;
  const TransportMap map = transport_map(cost_columns(kWidth), options);
  EXPECT_LE(largest(at::mm(map.Q, map.Q.t()) - eye(kWidth)), 1e-13);
}

INSTANTIATE_TEST_SUITE_P(Lambdas, TransportMapAtLambda, testing::Values(0.01, 0.1, 1.0, 10.0));

TEST(TransportMap, DoesNotDependOnTheUnitOfTheCost) {
  const at::Tensor cost = cost_columns(37);
  EXPECT_LE(largest(plan(cost, {}) - plan(1000 * cost, {})), 1e-14);
}

TEST(TransportMap, TakesLambdaInUnitsOfTheLargestCost) {
  const at::Tensor cost = cost_columns(37);
  SinkhornOptions options;
  options.lambda = 0.1;
  EXPECT_LE(largest(plan(cost, with_lambda(0.1)) - sinkhorn(cost / cost.max(), options).plan),
            1e-15);
}

TEST(TransportMap, FailsWithIterationsAndViolationIfSinkhornDoesNotConverge) {
  MapOptions options = with_lambda(0.01);
  options.sinkhorn.max_iterations = 3;
  try {
    transport_map(cost_columns(37), options);
    FAIL() << "converged in 3 iterations";
  } catch (const std::runtime_error& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("after 3 iterations"));
    EXPECT_THAT(error.what(), testing::ContainsRegex("violated by [0-9.e-]+ "));
  }
}

TEST(TransportMap, ReturnsTheLastPlanIfNonconvergenceIsAccepted) {
  MapOptions options = with_lambda(0.01);
  options.sinkhorn.max_iterations = 3;
  options.accept_nonconvergence = true;
  const TransportMap map = transport_map(cost_columns(37), options);
  EXPECT_FALSE(map.sinkhorn.converged);
  EXPECT_EQ(map.sinkhorn.iterations, 3);
  EXPECT_GT(map.sinkhorn.violation, 1e-8);
  EXPECT_LE(largest(at::mm(map.Q.t(), map.Q) - eye(37)), 1e-13);
}

TEST(TransportMap, RefusesAPlanOfDeficientRank) {
  at::Tensor cost = cost_columns(20).clone();
  cost.select(1, 7) = cost.select(1, 4);
  try {
    transport_map(cost, {});
    FAIL() << "two columns are equal";
  } catch (const std::runtime_error& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("rank-deficient"));
    EXPECT_THAT(error.what(), testing::ContainsRegex("entry of R is [0-9.e-]+, the largest [0-9]"));
  }
}

TEST(TransportMap, OfNoCostAtAllIsUniform) {
  const at::Tensor T = plan(at::zeros({6, 1}, at::kDouble), {});
  EXPECT_LE(largest(T - 1.0 / 6), 1e-16);
  EXPECT_THROW(transport_map(at::zeros({6, 2}, at::kDouble), {}), std::runtime_error);
}

}  // namespace
}  // namespace dotresize
