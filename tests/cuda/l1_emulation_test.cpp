// worker/kernels/cuda/l1_cost.cu on the CPU: see emulation/cuda_emulation.h.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "tests/cuda/emulation/cuda_emulation.h"
#include "tests/cuda/emulation/half2_emulation.h"
#include "tests/kernels/random_inputs.h"
#include "worker/kernels/cuda/l1_cost.cu"

namespace dotresize {
namespace {

/// Σ_t |x[t, i] − x[t, j]| in float64.
at::Tensor reference(const at::Tensor& x) {
  const at::Tensor values = x.to(at::kDouble);
  return (values.unsqueeze(2) - values.unsqueeze(1)).abs().sum(0);
}

unsigned int blocks(int width) {
  const auto tiles = static_cast<unsigned int>((width + TILE - 1) / TILE);
  return tiles * (tiles + 1) / 2;
}

at::Tensor mirrored(at::Tensor cost) {
  const auto width = static_cast<int>(cost.size(0));
  const auto tiles = static_cast<unsigned int>((width + MIRROR - 1) / MIRROR);
  cuda_emulation::launch({tiles, tiles}, {MIRROR, 8},
                         [&] { mirror_upper_triangle(cost.data_ptr<double>(), width); });
  return cost;
}

at::Tensor cost_of(const at::Tensor& x) {
  at::Tensor cost = at::zeros({x.size(1), x.size(1)}, at::kDouble);
  const auto tokens = static_cast<int>(x.size(0));
  const auto width = static_cast<int>(x.size(1));
  cuda_emulation::launch({blocks(width)}, {THREADS}, [&] {
    if (x.scalar_type() == at::kHalf) {
      l1_cost_half(reinterpret_cast<const unsigned short*>(x.data_ptr()), cost.data_ptr<double>(),
                   tokens, width);
    } else {
      l1_cost_float(x.data_ptr<float>(), cost.data_ptr<double>(), tokens, width);
    }
  });
  return mirrored(cost);
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

INSTANTIATE_TEST_SUITE_P(AwkwardSizes, EmulatedL1Cost,
                         testing::Values(std::tuple(1, 1), std::tuple(7, 129), std::tuple(8, 257),
                                         std::tuple(257, 130), std::tuple(300, 13)));

/// Equal terms are the worst case of a float32 sum.
TEST(EmulatedL1Cost, IsAccurateWhereAllTokensAreEqual) {
  at::manual_seed(1);
  const at::Tensor x = at::randn({1, 16}).expand({512, 16}).contiguous();
  EXPECT_LE(relative_error(cost_of(x), reference(x)), 1e-5);
}

}  // namespace
}  // namespace dotresize
