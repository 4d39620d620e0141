#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "worker/evaluation/vocabulary_sums.h"

namespace dotresize {
namespace {

/// Computes the divergence from `rows` of the vocabulary at a time.
RunningDivergence in_blocks(const at::Tensor& p, const at::Tensor& q, int64_t rows) {
  RunningDivergence running(p.size(0), at::kCPU);
  for (int64_t first = 0; first < p.size(1); first += rows) {
    const int64_t count = std::min(rows, p.size(1) - first);
    running.add(p.narrow(1, first, count), q.narrow(1, first, count), first);
  }
  return running;
}

at::Tensor direct(const at::Tensor& p, const at::Tensor& q) {
  const at::Tensor log_p = at::log_softmax(p.to(at::kDouble), 1);
  const at::Tensor log_q = at::log_softmax(q.to(at::kDouble), 1);
  return (log_p.exp() * (log_p - log_q)).sum(1);
}

/// Returns logits of more tokens than are compared at a time, in sizes that leave partial blocks.
at::Tensor random_logits(uint64_t seed) {
  at::manual_seed(seed);
  return at::randn({131, 1009}, at::kFloat) * 4;
}

TEST(RunningDivergence, EqualsADirectComputation) {
  const at::Tensor p = random_logits(1);
  const at::Tensor q = p + random_logits(2) / 8;
  const at::Tensor expected = direct(p, q);
  const at::Tensor same = p.argmax(1) == q.argmax(1);
  EXPECT_TRUE(same.any().item<bool>() && !same.all().item<bool>());
  for (const int64_t rows : {1, 100, 1009}) {
    const RunningDivergence running = in_blocks(p, q, rows);
    EXPECT_TRUE(at::allclose(running.kl(), expected, /*rtol=*/0, /*atol=*/1e-12)) << rows;
    EXPECT_TRUE(running.agrees().equal(same)) << rows;
  }
}

TEST(RunningDivergence, IsThatOfTheReferenceFromTheModel) {
  const at::Tensor p = random_logits(3);
  const at::Tensor q = random_logits(4);
  EXPECT_FALSE(at::allclose(direct(p, q), direct(q, p), /*rtol=*/0.01));
  EXPECT_TRUE(at::allclose(in_blocks(p, q, 500).kl(), direct(p, q)));
}

TEST(RunningDivergence, OfEqualLogitsIsZero) {
  const at::Tensor p = random_logits(5);
  const RunningDivergence running = in_blocks(p, p, 100);
  EXPECT_EQ(running.kl().abs().max().item<double>(), 0.0);
  EXPECT_TRUE(running.agrees().all().item<bool>());
}

/// A constant that is added to all logits does not change the distribution.
TEST(RunningDivergence, OfShiftedLogitsIsRounding) {
  const at::Tensor p = random_logits(6).round();
  EXPECT_LT(in_blocks(p, p - 256, 100).kl().abs().max().item<double>(), 1e-12);
}

/// float32 rounds logits of this size by 1e-6, and the divergence is the square of that.
TEST(RunningDivergence, OfRoundedLogitsIsTheirSquare) {
  const at::Tensor p = random_logits(7);
  const at::Tensor kl = in_blocks(p, p + at::randn_like(p) * 1e-6, 100).kl();
  EXPECT_GT(kl.min().item<double>(), -1e-13);
  EXPECT_LT(kl.max().item<double>(), 1e-11);
}

TEST(RunningDivergence, ShowsLogitsThatAreNotFinite) {
  at::Tensor q = random_logits(8);
  q[3][500] = std::numeric_limits<float>::quiet_NaN();
  const at::Tensor finite = in_blocks(random_logits(9), q, 100).kl().isfinite();
  EXPECT_FALSE(finite[3].item<bool>());
  EXPECT_EQ(finite.sum().item<int64_t>(), 130);
}

}  // namespace
}  // namespace dotresize
