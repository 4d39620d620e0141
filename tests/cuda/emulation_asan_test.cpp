// Runs the kernels on the CPU (emulation/cuda_emulation.h) under AddressSanitizer, with buffers of
// exactly the size that they need. The program contains nothing of libtorch.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "tests/cuda/emulation/cuda_emulation.h"
#include "worker/cuda/l1_cost.cu"
#undef THREADS
// The value for 6554 of 8192 channels: a 70B model at sparsity 0.2.
#define COLUMNS_PER_THREAD 13
#include "worker/cuda/sinkhorn.cu"
#undef THREADS
#undef WARPS
#include "worker/cuda/removal.cu"
#undef THREADS

namespace {

constexpr unsigned int kSinkhornThreads = 512;
constexpr unsigned int kRemovalThreads = 128;

/// Returns a number in (0, 1), the same in every run.
double number(size_t i) { return 0.5 + 0.49 * std::sin(static_cast<double>(i * i % 10007)); }

std::vector<double> numbers(size_t size) {
  std::vector<double> values(size);
  for (size_t i = 0; i < size; ++i) values[i] = number(i);
  return values;
}

unsigned int across(int width, int tile) {
  return static_cast<unsigned int>((width + tile - 1) / tile);
}

struct Shape {
  int tokens;
  int width;
};

/// Returns the largest error of the upper triangle for a token. The reference is computed from x[t
/// * width + i].
double l1_error(const std::vector<float>& x, const std::vector<double>& cost, Shape shape) {
  double worst = 0.0;
  const auto width = static_cast<size_t>(shape.width);
  for (size_t i = 0; i < width; ++i) {
    for (size_t j = i + 1; j < width; ++j) {
      double sum = 0.0;
      for (size_t t = 0; t < static_cast<size_t>(shape.tokens); ++t) {
        sum += std::fabs(static_cast<double>(x[t * width + i]) - x[t * width + j]);
      }
      worst = std::max(worst, std::fabs(cost[i * width + j] - sum) / shape.tokens);
    }
  }
  return worst;
}

class KernelsInBounds : public testing::TestWithParam<Shape> {
 protected:
  Shape shape_ = GetParam();
  size_t width_ = static_cast<size_t>(shape_.width);
  size_t values_ = width_ * static_cast<size_t>(shape_.tokens);
  std::vector<double> cost_ = std::vector<double>(width_ * width_);
};

TEST_P(KernelsInBounds, L1Cost) {
  std::vector<float> x(values_);
  for (size_t i = 0; i < values_; ++i) x[i] = static_cast<float>(number(i));
  const std::vector<float> largest = {1.0f};
  const unsigned int tiles = across(shape_.width, TILE);
  cuda_emulation::launch({tiles * (tiles + 1) / 2}, {256}, [&] {
    l1_cost(x.data(), largest.data(), cost_.data(), shape_.tokens, shape_.width);
  });
  EXPECT_LE(l1_error(x, cost_, shape_), 0x1p-21);
  const unsigned int mirrors = across(shape_.width, MIRROR);
  cuda_emulation::launch({mirrors, mirrors}, {MIRROR, 8},
                         [&] { mirror_upper_triangle(cost_.data(), shape_.width); });
  for (size_t i = 0; i < width_; ++i) {
    for (size_t j = 0; j < i; ++j) ASSERT_EQ(cost_[i * width_ + j], cost_[j * width_ + i]);
  }
}

INSTANTIATE_TEST_SUITE_P(AwkwardSizes, KernelsInBounds,
                         testing::Values(Shape{1, 1}, Shape{7, 129}, Shape{9, 33}, Shape{257, 13}));

class WideSinkhornInBounds : public testing::TestWithParam<int> {};

/// Runs both kernels of one iteration from v = (1, ..., 1) and compares with the definition in
/// sinkhorn.cu.
TEST_P(WideSinkhornInBounds, IterationIsThatOfItsDefinition) {
  constexpr size_t kRows = 5;
  constexpr int kBlocks = 2;
  const int columns = GetParam();
  const auto width = static_cast<size_t>(columns);
  const std::vector<double> K = numbers(kRows * width);
  const std::vector<double> u(kRows, 1.0), v(width, 1.0);
  std::vector<double> next_u(kRows), next_v(width), sums(kBlocks * width), violations(kBlocks);
  Status status{0.0, 0.0, 0.0};
  cuda_emulation::launch({kBlocks}, {kSinkhornThreads}, [&] {
    sinkhorn_rows(K.data(), u.data(), v.data(), next_u.data(), sums.data(), violations.data(),
                  &status, /*previous=*/nullptr, /*tolerance=*/0.0, kRows, columns, 1.0 / kRows);
  });
  cuda_emulation::launch({across(columns, COLUMNS)}, {COLUMNS, PARTS}, [&] {
    sinkhorn_columns(sums.data(), violations.data(), next_v.data(), &status, /*previous=*/nullptr,
                     /*tolerance=*/0.0, kBlocks, columns, 1.0 / columns);
  });
  std::vector<double> column_sums(width);
  for (size_t i = 0; i < kRows; ++i) {
    double sum = 0.0;
    for (size_t j = 0; j < width; ++j) sum += K[i * width + j];
    EXPECT_NEAR(next_u[i] * sum * kRows, 1.0, 1e-12);
    for (size_t j = 0; j < width; ++j) column_sums[j] += K[i * width + j] * next_u[i];
  }
  for (size_t j = 0; j < width; ++j) ASSERT_NEAR(next_v[j] * column_sums[j] * columns, 1.0, 1e-12);
  EXPECT_EQ(status.out_of_range, 0.0);
}

INSTANTIATE_TEST_SUITE_P(ColumnsAThread, WideSinkhornInBounds,
                         testing::Values(12 * kSinkhornThreads + 1, 6554, 13 * kSinkhornThreads));

class RemovalInBounds : public testing::TestWithParam<int> {};

/// Removes all features of a diagonal problem, whose costs do not change. They go by cost.
TEST_P(RemovalInBounds, FeaturesGoByCost) {
  const int n = GetParam();
  const auto width = static_cast<size_t>(n);
  const size_t steps = std::min<size_t>(width, STEPS);
  std::vector<double> inverse(width * width), products(width * width);
  std::vector<double> squares = numbers(width), diagonal(width, 0.5);
  for (size_t i = 0; i < width; ++i) {
    inverse[i * width + i] = diagonal[i];
    products[i * width + i] = squares[i];
  }
  std::vector<double> costs_of_all = squares;
  for (double& cost : costs_of_all) cost /= 0.5;
  std::sort(costs_of_all.begin(), costs_of_all.end());
  std::vector<double> rows(steps * width), changes(steps * width), costs(steps);
  std::vector<long long> removed(steps);
  const unsigned int blocks = across(n, kRemovalThreads);
  std::vector<Candidate> candidates(blocks), next(blocks);
  cuda_emulation::launch({blocks}, {kRemovalThreads}, [&] {
    removal_candidates(squares.data(), diagonal.data(), candidates.data(), n);
  });
  for (size_t step = 0; step < steps; ++step) {
    cuda_emulation::launch({blocks}, {kRemovalThreads}, [&] {
      removal_step(inverse.data(), products.data(), squares.data(), diagonal.data(), rows.data(),
                   changes.data(), costs.data(), removed.data(), candidates.data(), next.data(), n,
                   static_cast<int>(step));
    });
    std::swap(candidates, next);
    EXPECT_NEAR(costs[step], costs_of_all[step], 1e-12);
  }
}

INSTANTIATE_TEST_SUITE_P(AwkwardSizes, RemovalInBounds, testing::Values(1, 127, 129, 300));

}  // namespace
