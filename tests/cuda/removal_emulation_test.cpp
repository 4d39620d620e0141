// Runs worker/cuda/removal.cu on the CPU: see emulation/cuda_emulation.h.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "tests/cuda/emulation/cuda_emulation.h"
#include "worker/cuda/removal.cu"
#include "worker/kernels/removal_steps.h"

namespace dotresize {
namespace {

RemovalSteps emulated_steps(RemovalState& state, int64_t count) {
  const int64_t n = state.inverse.size(0);
  const RemovalSteps steps{at::empty({count, n}, at::kDouble), at::empty({count, n}, at::kDouble),
                           at::empty({count}, at::kDouble), at::empty({count}, at::kLong)};
  const auto blocks = static_cast<unsigned int>((n + THREADS - 1) / THREADS);
  std::vector<Candidate> candidates(blocks);
  std::vector<Candidate> next(blocks);
  const int width = static_cast<int>(n);
  cuda_emulation::launch({blocks}, {THREADS}, [&] {
    removal_candidates(state.squares.data_ptr<double>(), state.diagonal.data_ptr<double>(),
                       candidates.data(), width);
  });
  for (int step = 0; step < count; ++step) {
    cuda_emulation::launch({blocks}, {THREADS}, [&] {
      removal_step(state.inverse.data_ptr<double>(), state.products.data_ptr<double>(),
                   state.squares.data_ptr<double>(), state.diagonal.data_ptr<double>(),
                   steps.rows.data_ptr<double>(), steps.changes.data_ptr<double>(),
                   steps.costs.data_ptr<double>(),
                   reinterpret_cast<long long*>(steps.removed.data_ptr<int64_t>()),
                   candidates.data(), next.data(), width, step);
    });
    std::swap(candidates, next);
  }
  return steps;
}

RemovalState random_state(int64_t n) {
  at::manual_seed(n);
  const at::Tensor x = at::randn({2 * n, n}, at::kDouble);
  const at::Tensor V = at::randn({30, n}, at::kDouble);
  const at::Tensor inverse = at::linalg_inv(at::mm(x.t(), x));
  const at::Tensor products = at::mm(V.t(), V);
  return {inverse, products, products.diagonal().clone(), inverse.diagonal().clone()};
}

class EmulatedRemoval : public testing::TestWithParam<int64_t> {};

TEST_P(EmulatedRemoval, StepsAreThoseOfTheCpu) {
  const int64_t n = GetParam();
  RemovalState state = random_state(n);
  RemovalState expected_state = random_state(n);
  const int64_t count = std::min(n, kMaxRemovalSteps);
  const RemovalSteps steps = emulated_steps(state, count);
  const RemovalSteps expected = removal_steps(expected_state, count);
  EXPECT_TRUE(steps.removed.equal(expected.removed));
  EXPECT_TRUE(at::allclose(steps.costs, expected.costs, 1e-9, 0));
  EXPECT_TRUE(at::allclose(steps.rows, expected.rows, 1e-9, 1e-9));
  EXPECT_TRUE(at::allclose(steps.changes, expected.changes, 1e-9, 1e-9));
  EXPECT_TRUE(at::allclose(state.squares, expected_state.squares, 1e-8, 1e-8));
  EXPECT_TRUE(at::allclose(state.diagonal, expected_state.diagonal, 1e-8, 1e-8));
}

INSTANTIATE_TEST_SUITE_P(AwkwardSizes, EmulatedRemoval, testing::Values(1, 31, 128, 129, 300));

TEST(EmulatedRemoval, OfEqualCostsTheLowerColumnGoes) {
  const at::Tensor unit = at::eye(200, at::kDouble);
  RemovalState state{unit, unit, at::ones({200}, at::kDouble), at::ones({200}, at::kDouble)};
  EXPECT_TRUE(emulated_steps(state, 3).removed.equal(at::arange(3)));
}

}  // namespace
}  // namespace dotresize
