// Compares the kernels on a GPU with those on the CPU.
#include <ATen/ATen.h>

#include "tests/cuda/gpu.h"
#include "tests/kernels/l1_cost.h"
#include "tests/kernels/random_inputs.h"
#include "tests/maps/solve_junction.h"
#include "worker/kernels/cuda_kernels.h"
#include "worker/kernels/l1_cost.h"
#include "worker/kernels/removal_steps.h"
#include "worker/kernels/sinkhorn.h"
#include "worker/maps/moments.h"

namespace dotresize {
namespace {

/// x: float16 on the GPU. Returns both triangles.
at::Tensor half_l1_cost(const at::Tensor& x, double unit = 1.0) {
  at::Tensor cost = at::zeros({x.size(1), x.size(1)}, x.options().dtype(at::kDouble));
  cuda_kernels().add_half_l1_cost(x, unit, cost);
  mirror_upper_triangle(cost);
  return cost;
}

double relative_error(const at::Tensor& value, const at::Tensor& reference) {
  return ((value.cpu() - reference).abs() / reference.abs().clamp_min(1e-30)).max().item<double>();
}

double max_difference(const at::Tensor& a, const at::Tensor& b) {
  return (a.cpu() - b).abs().max().item<double>();
}

struct L1CostOnGpu : OnGpu, testing::WithParamInterface<std::tuple<int64_t, int64_t>> {};

TEST_P(L1CostOnGpu, AgreesWithTheCpu) {
  const auto [tokens, width] = GetParam();
  const at::Tensor x = activations(tokens, width);
  const at::Tensor cost = l1_cost(x.cuda());
  EXPECT_LE(relative_error(cost, l1_cost(x)), 1e-5);
  EXPECT_TRUE(cost.equal(cost.t()));
  EXPECT_TRUE(cost.equal(l1_cost(x.cuda())));
}

TEST_P(L1CostOnGpu, InHalfPrecisionIsWithinItsBound) {
  const auto [tokens, width] = GetParam();
  const at::Tensor x = activations(tokens, width).to(at::kHalf);
  EXPECT_LE(relative_error(half_l1_cost(x.cuda()), l1_cost(x.to(at::kFloat))), 9.0 / 2048);
  EXPECT_TRUE(half_l1_cost(x.cuda(), 0.25).equal(0.25 * half_l1_cost(x.cuda())));
}

INSTANTIATE_TEST_SUITE_P(AwkwardSizes, L1CostOnGpu,
                         testing::Combine(testing::Values(1, 7, 256, 257, 1201),
                                          testing::Values(1, 13, 127, 128, 129, 257, 1000)));

struct KernelsOnGpu : OnGpu {};

TEST_F(KernelsOnGpu, L1CostIsAccurateWhereAllTokensAreEqual) {
  const at::Tensor x = activations(1, 97).expand({4096, 97}).contiguous();
  EXPECT_LE(relative_error(l1_cost(x.cuda()), l1_cost(x)), 1e-5);
}

TEST_F(KernelsOnGpu, L1CostOfHalfPrecisionIsFarBetterThanItsBoundOverManyTokens) {
  const at::Tensor x = activations(4096, 300).to(at::kHalf);
  const double error = relative_error(half_l1_cost(x.cuda()), l1_cost(x.to(at::kFloat)));
  RecordProperty("relative_error", std::to_string(error));
  EXPECT_LE(error, 1e-4);
}

/// x resembles a residual stream: channels of very different size, one far larger than all others.
TEST_F(KernelsOnGpu, CostsInHalfPrecisionAreWithinTheirBoundForAResidualStream) {
  at::Tensor x = activations(2048, 500) * at::linspace(-6, 0, 500).exp();
  x.select(1, 3).mul_(1e4);
  at::Tensor cost = at::zeros({500, 500}, at::dtype(at::kDouble).device(at::kCUDA));
  add_half_l1_cost(x.cuda(), cost);
  mirror_upper_triangle(cost);
  EXPECT_LE(relative_error(cost, l1_cost(x)), kMaxHalfL1CostError);
  const double error = half_l1_cost_error(x.cuda());
  EXPECT_GT(error, 0.0);
  EXPECT_LE(error, kMaxHalfL1CostError);
}

void expect_same_plan(const at::Tensor& cost, const SinkhornOptions& options, double tolerance) {
  const SinkhornResult expected = sinkhorn(cost, options);
  const SinkhornResult result = sinkhorn(cost.cuda(), options);
  EXPECT_EQ(result.iterations, expected.iterations);
  EXPECT_EQ(result.converged, expected.converged);
  EXPECT_NEAR(result.violation, expected.violation, tolerance);
  EXPECT_LE(max_difference(result.plan, expected.plan), tolerance);
  EXPECT_TRUE(result.plan.equal(sinkhorn(cost.cuda(), options).plan));
}

TEST_F(KernelsOnGpu, SinkhornIsThatOfTheCpu) {
  for (const auto& [d, k] : {std::pair(1, 1), std::pair(60, 41), std::pair(700, 513)}) {
    for (const double lambda : {0.01, 0.1, 1.0}) {
      expect_same_plan(random_cost(d, k), {.lambda = lambda}, 1e-13);
    }
  }
}

TEST_F(KernelsOnGpu, SinkhornAbsorbsScalingsThatGrowOutOfRange) {
  const at::Tensor cost =
      at::tensor({0.0, 1000.0, 1050.0, 2.0, 1100.0, 1001.0, 1030.0, 0.0, 1.0}, at::kDouble)
          .view({3, 3});
  for (const int64_t iterations : {300, 340, 350, 800}) {
    expect_same_plan(cost, {.lambda = 1.0, .max_iterations = iterations}, 1e-11);
  }
}

TEST_F(KernelsOnGpu, SinkhornOfAPlanTooWideForTheKernelIsTheSame) {
  expect_same_plan(at::rand({40, 8200}, at::kDouble), {.max_iterations = 20}, 1e-13);
}

TEST_F(KernelsOnGpu, MomentsAreThoseOfTheCpu) {
  const at::Tensor x = activations(3000, 200);
  const MomentKinds kinds{.gram = true, .sums = {.abs_sum = true, .cost = true}};
  Moments expected(200, kinds);
  Moments moments(200, kinds, at::kCUDA);
  expected.add(x);
  moments.add(x.cuda());
  expected.mirror();
  moments.mirror();
  EXPECT_LE(max_difference(moments.gram, expected.gram), 1e-5 * expected.gram.max().item<double>());
  EXPECT_LE(relative_error(moments.abs_sum, expected.abs_sum), 1e-6);
  EXPECT_LE(relative_error(moments.cost, expected.cost), 1e-5);
}

/// The candidates of 1000 features come from eight blocks of threads. Two calls continue each
/// other.
TEST_F(KernelsOnGpu, StepsOfARemovalAreThoseOfTheCpu) {
  for (const int64_t n : {1, 40, 129, 1000}) {
    const at::Tensor x = activations(2 * n, n).to(at::kDouble);
    const at::Tensor inverse = at::linalg_inv(at::mm(x.t(), x) + 0.1 * at::eye(n, at::kDouble));
    const at::Tensor V = at::randn({30, n}, at::kDouble);
    const at::Tensor products = at::mm(V.t(), V);
    RemovalState on_cpu{inverse, products, products.diagonal().clone(), inverse.diagonal().clone()};
    RemovalState on_gpu{inverse.cuda(), products.cuda(), on_cpu.squares.cuda(),
                        on_cpu.diagonal.cuda()};
    const int64_t count = std::min(n, kMaxRemovalSteps);
    const RemovalSteps expected = removal_steps(on_cpu, count);
    const RemovalSteps steps = removal_steps(on_gpu, count);
    EXPECT_TRUE(steps.removed.cpu().equal(expected.removed)) << n;
    EXPECT_LE(relative_error(steps.costs, expected.costs), 1e-9);
    EXPECT_LE(max_difference(steps.rows, expected.rows), 1e-9);
    EXPECT_LE(max_difference(steps.changes, expected.changes), 1e-9);
    EXPECT_TRUE(at::isinf(on_gpu.squares.cpu()).equal(at::isinf(on_cpu.squares)));
    EXPECT_LE(max_difference(on_gpu.diagonal, on_cpu.diagonal), 1e-9);
  }
}

/// The host decomposes at width 100, the GPU at width 600.
TEST_F(KernelsOnGpu, MapsAreThoseOfTheCpu) {
  for (const int64_t width : {100, 600}) {
    const at::Tensor x = (activations(2000, width) * at::linspace(0.1, 3.0, width)).to(at::kDouble);
    const at::Tensor gram = at::mm(x.t(), x);
    const Eigenbasis basis = eigenbasis(gram / 2000);
    const Eigenbasis basis_on_gpu = eigenbasis(gram.cuda() / 2000);
    const at::Tensor z = at::mm(x, basis.vectors);
    const at::Tensor cost = l1_cost(z.to(at::kFloat));
    const at::Tensor abs_sum = z.abs().sum(0);
    const int64_t k = width * 4 / 5;
    const JunctionSolution expected = solve_junction({2000, gram, abs_sum, cost}, basis, {}, k);
    const JunctionSolution solution =
        solve_junction({2000, gram.cuda(), abs_sum.cuda(), cost.cuda()}, basis_on_gpu, {}, k);
    const at::Tensor M = solution.map.M.cpu();
    EXPECT_TRUE(solution.support.cpu().equal(expected.support));
    EXPECT_LE(max_difference(at::mm(M, M.t()), at::mm(expected.map.M, expected.map.M.t())), 1e-7);
    EXPECT_EQ(solution.diagnostics.effective_rank, expected.diagnostics.effective_rank);
  }
}

}  // namespace
}  // namespace dotresize

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  const int failed = RUN_ALL_TESTS();
  return failed == 0 && !dotresize::ask_driver().fault.empty() ? dotresize::kAllSkipped : failed;
}
