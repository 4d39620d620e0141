#include "worker/maps/fold.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>

namespace dotresize {
namespace {

class Fold : public testing::Test {
 protected:
  void SetUp() override { at::manual_seed(3); }

  static at::Tensor random(at::IntArrayRef shape) { return at::randn(shape, at::kDouble); }

  /// Returns M [d, k] with orthonormal columns.
  static at::Tensor orthonormal(int64_t d, int64_t k) {
    return std::get<0>(at::linalg_qr(random({d, k}), "reduced"));
  }

  static void expect_close(const at::Tensor& actual, const at::Tensor& expected) {
    ASSERT_EQ(actual.scalar_type(), at::kDouble);
    ASSERT_EQ(actual.sizes(), expected.sizes());
    EXPECT_LE((actual - expected).abs().max().item<double>(), 1e-12);
  }
};

TEST_F(Fold, OfAReaderReadsTheReconstruction) {
  const at::Tensor weight = random({7, 12}), gamma = random({12}), M_inv = random({5, 12});
  const at::Tensor narrow = random({3, 5});
  const at::Tensor wide = at::mm(narrow, M_inv) * gamma;
  expect_close(at::mm(narrow, fold_in_proj(weight, gamma, M_inv).t()), at::mm(wide, weight.t()));
}

TEST_F(Fold, OfAReaderWithoutAGammaTakesOnes) {
  const at::Tensor weight = random({7, 12}), M_inv = random({5, 12});
  const at::Tensor ones = at::ones({12}, at::kDouble);
  EXPECT_TRUE(fold_in_proj(weight, {}, M_inv).equal(fold_in_proj(weight, ones, M_inv)));
}

TEST_F(Fold, OfAWriterWritesTheMappedOutput) {
  const at::Tensor weight = random({12, 9}), bias = random({12}), M = random({12, 5});
  const at::Tensor x = random({4, 9});
  const at::Tensor wide = at::mm(x, weight.t()) + bias;
  const at::Tensor narrow = at::mm(x, fold_out_proj(weight, M).t()) + fold_out_proj_bias(bias, M);
  expect_close(narrow, at::mm(wide, M));
}

TEST_F(Fold, OfAnEmbeddingMapsEachRow) {
  const at::Tensor embedding = random({9001, 12}), M = random({12, 5});
  expect_close(fold_embedding(embedding, M), at::mm(embedding, M));
}

TEST_F(Fold, AtFullWidthChangesNothingButTheBasis) {
  const at::Tensor M = orthonormal(12, 12);
  const at::Tensor in_proj = random({7, 12}), out_proj = random({12, 9}), gamma = random({12});
  const at::Tensor through_map =
      at::mm(fold_in_proj(in_proj, gamma, M.t()), fold_out_proj(out_proj, M));
  expect_close(through_map, at::mm(in_proj * gamma, out_proj));
}

/// Checks the header's promise about float32 at the largest width that models have.
TEST_F(Fold, InFloat32ErrsFarLessThanA16BitOutputRounds) {
  const at::Tensor weight = random({16, 8192}), M_inv = random({24, 8192}) / std::sqrt(8192.0);
  const at::Tensor exact = fold_in_proj(weight, {}, M_inv);
  const at::Tensor folded = fold_in_proj(weight, {}, M_inv.to(at::kFloat));
  EXPECT_EQ(folded.scalar_type(), at::kFloat);
  const at::Tensor mean_square = exact.square().mean(1, /*keepdim=*/true);
  const at::Tensor error = (folded.to(at::kDouble) - exact).abs() / mean_square.sqrt();
  EXPECT_LT(error.max().item<double>(), std::exp2(-18));
  EXPECT_GT(error.max().item<double>(), std::exp2(-24));
}

TEST_F(Fold, ComputesInTheMapsDtypeWhateverTheWeightIs) {
  const at::Tensor weight = random({12, 12}).to(at::kBFloat16), M = random({12, 5});
  const at::Tensor exact = weight.to(at::kDouble);
  expect_close(fold_in_proj(weight, {}, M.t()), at::mm(exact, M));
  expect_close(fold_out_proj(weight, M), at::mm(M.t(), exact));
  expect_close(fold_embedding(weight, M), at::mm(exact, M));
  expect_close(fold_out_proj_bias(weight[0], M), at::mv(M.t(), exact[0]));
}

TEST_F(Fold, RefusesShapesThatDoNotMeet) {
  const at::Tensor M = random({12, 5});
  EXPECT_THROW(fold_in_proj(random({7, 11}), {}, M.t()), c10::Error);
  EXPECT_THROW(fold_in_proj(random({7, 12}), random({11}), M.t()), c10::Error);
  EXPECT_THROW(fold_out_proj(random({11, 7}), M), c10::Error);
  EXPECT_THROW(fold_out_proj_bias(random({11}), M), c10::Error);
  EXPECT_THROW(fold_embedding(random({7, 11}), M), c10::Error);
}

}  // namespace
}  // namespace dotresize
