// Runs the kernels on the CPU (emulation/cuda_emulation.h) under AddressSanitizer, with buffers of
// exactly the size that they need. The program contains nothing of libtorch.
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "tests/cuda/emulation/cuda_emulation.h"
// Must come before the kernels: it takes the place of half2.cuh.
#include "tests/cuda/emulation/half2_emulation.h"
#include "worker/cuda/l1_cost.cu"
#undef THREADS
// The value for 6554 of 8192 channels: a 70B model at sparsity 0.2.
#define COLUMNS_PER_THREAD 13
#include "worker/cuda/sinkhorn.cu"

namespace {

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

/// Returns the largest relative error of the upper triangle. The reference is computed from x[t *
/// width + i], the values that the kernel sees.
double l1_error(const std::vector<float>& x, const std::vector<double>& cost, Shape shape) {
  double worst = 0.0;
  const auto width = static_cast<size_t>(shape.width);
  for (size_t i = 0; i < width; ++i) {
    for (size_t j = i + 1; j < width; ++j) {
      double sum = 0.0;
      for (size_t t = 0; t < static_cast<size_t>(shape.tokens); ++t) {
        sum += std::fabs(static_cast<double>(x[t * width + i]) - x[t * width + j]);
      }
      worst = std::max(worst, std::fabs(cost[i * width + j] - sum) / std::max(sum, 1e-6));
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

  template <class Kernel>
  void launch_l1(const Kernel& kernel) {
    const unsigned int tiles = across(shape_.width, TILE);
    cuda_emulation::launch({tiles * (tiles + 1) / 2}, {256}, kernel);
  }
};

TEST_P(KernelsInBounds, L1CostOfFloat32) {
  std::vector<float> x(values_);
  for (size_t i = 0; i < values_; ++i) x[i] = static_cast<float>(number(i));
  launch_l1([&] { l1_cost_float(x.data(), cost_.data(), shape_.tokens, shape_.width); });
  EXPECT_LT(l1_error(x, cost_, shape_), 1e-5);
  const unsigned int mirrors = across(shape_.width, MIRROR);
  cuda_emulation::launch({mirrors, mirrors}, {MIRROR, 8},
                         [&] { mirror_upper_triangle(cost_.data(), shape_.width); });
  for (size_t i = 0; i < width_; ++i) {
    for (size_t j = 0; j < i; ++j) ASSERT_EQ(cost_[i * width_ + j], cost_[j * width_ + i]);
  }
}

TEST_P(KernelsInBounds, L1CostOfFloat16) {
  const size_t stride = (width_ + 1) / 2;
  std::vector<float> x(values_);
  std::vector<Half2> pairs(stride * static_cast<size_t>(shape_.tokens));
  for (size_t i = 0; i < values_; ++i) {
    const unsigned int half = float_to_half(static_cast<float>(number(i)));
    x[i] = half_to_float(half);
    pairs[i / width_ * stride + i % width_ / 2] |= half << (i % width_ % 2 * 16);
  }
  launch_l1([&] {
    l1_cost_half(pairs.data(), cost_.data(), shape_.tokens, shape_.width, static_cast<int>(stride),
                 /*unit=*/1.0);
  });
  EXPECT_LT(l1_error(x, cost_, shape_), 9.0 / 2048);
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
  cuda_emulation::launch({kBlocks}, {THREADS}, [&] {
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
                         testing::Values(12 * THREADS + 1, 6554, 13 * THREADS));

}  // namespace
