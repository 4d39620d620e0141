// Runs worker/cuda/sinkhorn.cu on the CPU: see emulation/cuda_emulation.h.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "tests/cuda/emulation/cuda_emulation.h"

#define COLUMNS_PER_THREAD 2
#include "worker/cuda/sinkhorn.cu"

namespace dotresize {
namespace {

constexpr double kTolerance = 1e-8;

struct Step {
  at::Tensor u;
  at::Tensor v;
  Status status{0.0, 0.0, 0.0};
};

/// previous: status of the iteration before, or null.
Step advance(const at::Tensor& kernel, const at::Tensor& u, const at::Tensor& v,
             const Status* previous = nullptr) {
  constexpr int kBlocks = 3;
  const int64_t rows = kernel.size(0);
  const int64_t columns = kernel.size(1);
  Step step{at::empty_like(u), at::empty_like(v), {}};
  const at::Tensor sums = at::empty({kBlocks, columns}, kernel.options());
  const at::Tensor violations = at::empty({kBlocks}, kernel.options());
  cuda_emulation::launch({kBlocks}, {THREADS}, [&] {
    sinkhorn_rows(kernel.data_ptr<double>(), u.data_ptr<double>(), v.data_ptr<double>(),
                  step.u.data_ptr<double>(), sums.data_ptr<double>(), violations.data_ptr<double>(),
                  &step.status, previous, kTolerance, rows, columns,
                  1.0 / static_cast<double>(rows));
  });
  cuda_emulation::launch(
      {static_cast<unsigned int>((columns + COLUMNS - 1) / COLUMNS)}, {COLUMNS, PARTS}, [&] {
        sinkhorn_columns(sums.data_ptr<double>(), violations.data_ptr<double>(),
                         step.v.data_ptr<double>(), &step.status, previous, kTolerance, kBlocks,
                         columns, 1.0 / static_cast<double>(columns));
      });
  return step;
}

class EmulatedSinkhorn : public testing::TestWithParam<std::tuple<int64_t, int64_t>> {};

TEST_P(EmulatedSinkhorn, IterationIsThatOfMatrixProducts) {
  const auto [rows, columns] = GetParam();
  at::manual_seed(rows * 1009 + columns);
  const at::Tensor kernel = at::rand({rows, columns}, at::kDouble);
  const at::Tensor u = at::rand({rows}, at::kDouble);
  const at::Tensor v = at::rand({columns}, at::kDouble);
  const Step step = advance(kernel, u, v);

  const at::Tensor sums = at::mv(kernel, v);
  const at::Tensor expected_u = (1.0 / static_cast<double>(rows)) / sums;
  const at::Tensor expected_v =
      (1.0 / static_cast<double>(columns)) / at::mv(kernel.t(), expected_u);
  EXPECT_TRUE(at::allclose(step.u, expected_u, 1e-13, 0));
  EXPECT_TRUE(at::allclose(step.v, expected_v, 1e-13, 0));
  EXPECT_NEAR(step.status.violation,
              (u * sums - 1.0 / static_cast<double>(rows)).abs().sum().item<double>(),
              1e-13 * step.status.violation);
  EXPECT_EQ(step.status.out_of_range, 0.0);
}

INSTANTIATE_TEST_SUITE_P(AwkwardSizes, EmulatedSinkhorn,
                         testing::Values(std::tuple(1, 1), std::tuple(2, 513), std::tuple(40, 31),
                                         std::tuple(11, 1024)));

TEST(EmulatedSinkhorn, ReportsScalingsOutOfRange) {
  const at::Tensor ones = at::ones({4}, at::kDouble);
  EXPECT_EQ(advance(at::full({4, 4}, 1e-102, at::kDouble), ones, ones).status.out_of_range, 1.0);
  at::Tensor kernel = at::ones({4, 4}, at::kDouble);
  kernel.select(1, 2).zero_();
  EXPECT_EQ(advance(kernel, ones, ones).status.out_of_range, 1.0);
}

TEST(EmulatedSinkhorn, IterationAfterTheLastDoesNothing) {
  const at::Tensor kernel = at::rand({4, 4}, at::kDouble);
  const at::Tensor ones = at::ones({4}, at::kDouble);
  for (const Status& last :
       {Status{0.0, 0.0, 1.0}, Status{1.0, 1.0, 0.0}, Status{1e-9, 0.0, 0.0}}) {
    const Step step = advance(kernel, ones, ones, &last);
    EXPECT_EQ(step.status.skipped, 1.0);
    EXPECT_EQ(step.status.violation, 0.0);
  }
  const Status before{1e-7, 0.0, 0.0};
  EXPECT_EQ(advance(kernel, ones, ones, &before).status.skipped, 0.0);
}

}  // namespace
}  // namespace dotresize
