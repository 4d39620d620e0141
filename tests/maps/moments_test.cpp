#include "worker/maps/moments.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <limits>
#include <stdexcept>

#include "tests/maps/activations.h"
#include "worker/maps/describe/spectrum.h"

namespace dotresize {
namespace {

constexpr int64_t kWidth = 40;
constexpr MomentKinds kAll = {.gram = true, .sums = {.abs_sum = true, .cost = true}};

Moments moments(const std::vector<at::Tensor>& batches) {
  Moments result(kWidth, kAll);
  for (const at::Tensor& batch : batches) result.add(batch);
  result.mirror();
  return result;
}

double relative_difference(const at::Tensor& a, const at::Tensor& b) {
  return ((a - b).abs().max() / b.abs().max()).item<double>();
}

TEST(Moments, AreTheSumsOverTokens) {
  const at::Tensor x = stream_activations(2500, kWidth);
  const Moments result = moments({x});
  const at::Tensor exact = x.to(at::kDouble);
  EXPECT_LE(relative_difference(result.gram, at::mm(exact.t(), exact)), 1e-14);
  EXPECT_LE(relative_difference(result.abs_sum, exact.abs().sum(0)), 1e-14);
  EXPECT_LE(relative_difference(result.cost, at::cdist(exact.t(), exact.t(), 1.0)), 1e-6);
}

TEST(Moments, TakeLeadingDimensionsAsTokens) {
  const at::Tensor x = stream_activations(60, kWidth);
  const Moments result = moments({x.view({4, 15, kWidth})});
  EXPECT_TRUE(result.gram.equal(moments({x}).gram));
}

/// The width is not a multiple of a block's rows.
TEST(Moments, PackedAreTheSumsInFloat32) {
  constexpr int64_t kManyRows = 150;
  const at::Tensor x = stream_activations(2500, kManyRows);
  Moments packed(kManyRows, {.gram = true}, at::kCPU, {.packed = true});
  for (const at::Tensor& batch : x.split(700)) packed.add(batch);
  EXPECT_FALSE(packed.gram.defined());
  Moments kept = packed.copied(/*to_host=*/true);
  packed.add(x);
  const at::Tensor exact = at::mm(x.to(at::kDouble).t(), x.to(at::kDouble));
  EXPECT_LE(relative_difference(kept.upper_gram().triu(), exact.triu()), 1e-6);
  kept.mirror();
  EXPECT_LE(relative_difference(kept.gram, exact), 1e-6);
  EXPECT_TRUE(at::equal(kept.gram, kept.gram.t()));
  packed.mirror();
  EXPECT_LE(relative_difference(packed.gram, 2.0 * exact), 1e-6);
}

/// Adds sums the way ranks do.
void add_sums(Moments& total, const Moments& part) {
  std::vector<at::Tensor> sums = total.sums();
  for (size_t i = 0; i < sums.size(); ++i) sums[i] += part.sums()[i];
}

TEST(Moments, OfOneRankAndOfManyAreTheSame) {
  const std::vector<at::Tensor> batches = stream_activations(3000, kWidth).split(700);
  const Moments alone = moments(batches);
  Moments together(kWidth, kAll);
  for (const at::Tensor& batch : batches) add_sums(together, moments({batch}));
  EXPECT_LE(relative_difference(together.gram, alone.gram), 1e-14);
  EXPECT_LE(relative_difference(together.abs_sum, alone.abs_sum), 1e-14);
  EXPECT_LE(relative_difference(together.cost, alone.cost), 1e-14);
}

/// Independence of the number of ranks rests on this. Float32 products would miss it by orders of
/// magnitude.
TEST(Moments, GiveTheSameProjectorHoweverTokensAreSplit) {
  const at::Tensor x = stream_activations(3000, kWidth);
  const at::Tensor whole = eigenbasis(moments({x}).gram).vectors.narrow(1, 0, 30);
  const at::Tensor split = eigenbasis(moments(x.split(431)).gram).vectors.narrow(1, 0, 30);
  const at::Tensor difference = at::mm(whole, whole.t()) - at::mm(split, split.t());
  EXPECT_LE(at::linalg_matrix_norm(difference, 2).item<double>(), 1e-11);
}

TEST(Moments, HoldOnlyWhatWasAskedFor) {
  Moments result(kWidth, {.sums = {.abs_sum = true}});
  result.add(stream_activations(10, kWidth));
  EXPECT_FALSE(result.gram.defined());
  EXPECT_FALSE(result.cost.defined());
  ASSERT_EQ(result.sums().size(), 1u);
  EXPECT_TRUE(result.sums()[0].is_same(result.abs_sum));
}

/// Returns the sums of `parts` ranks, each with its share of 12 batches, added in reverse order.
Moments reproducible_moments(const at::Tensor& x, int parts) {
  const double norm =
      at::linalg_vector_norm(x, 2, at::IntArrayRef{-1}, false, at::kDouble).max().item<double>();
  const std::vector<at::Tensor> batches = x.split(x.size(0) / 12);
  Moments total(kWidth, kAll);
  for (int part = parts - 1; part >= 0; --part) {
    Moments mine(kWidth, kAll, at::kCPU, {.reproducible = SumBounds{x.size(0), norm}});
    for (size_t i = static_cast<size_t>(part); i < batches.size();
         i += static_cast<size_t>(parts)) {
      mine.add(batches[i]);
    }
    add_sums(total, mine);
  }
  total.mirror();
  return total;
}

TEST(Moments, ReproducibleSumsAreTheSameBitByBitHoweverTheBatchesAreDealtOut) {
  const at::Tensor x = stream_activations(12 * 64, kWidth);
  const Moments alone = reproducible_moments(x, 1);
  for (const int parts : {2, 3, 8}) {
    const Moments shared = reproducible_moments(x, parts);
    for (size_t i = 0; i < alone.sums().size(); ++i) {
      EXPECT_TRUE(shared.sums()[i].equal(alone.sums()[i])) << parts << " parts, sum " << i;
    }
  }
}

TEST(Moments, ReproducibleSumsAreAsGoodAsOthers) {
  const at::Tensor x = stream_activations(12 * 64, kWidth);
  const Moments plain = moments({x});
  const Moments rounded = reproducible_moments(x, 3);
  for (size_t i = 0; i < plain.sums().size(); ++i) {
    const at::Tensor difference = (rounded.sums()[i] - plain.sums()[i]).abs().max();
    EXPECT_LT(difference.item<double>(), 1e-6 * plain.sums()[i].abs().max().item<double>());
  }
  EXPECT_LT((rounded.gram - plain.gram).abs().max().item<double>(),
            1e-12 * plain.gram.abs().max().item<double>());
}

TEST(Moments, OfNoTokensAreZero) {
  const Moments result = moments({at::empty({0, kWidth})});
  for (const at::Tensor& sum : result.sums()) EXPECT_EQ(sum.abs().max().item<double>(), 0);
}

TEST(Moments, RefuseActivationsThatAreNotFiniteAndStayAsTheyWere) {
  Moments result = moments({stream_activations(10, kWidth)});
  const at::Tensor gram = result.gram.clone();
  for (const float bad :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    at::Tensor x = stream_activations(2000, kWidth);
    x[1999][3] = bad;
    EXPECT_THROW(result.add(x), std::runtime_error);
  }
  EXPECT_TRUE(result.gram.equal(gram));
}

TEST(Moments, AcceptTheLargestFiniteActivations) {
  const float largest = std::numeric_limits<float>::max();
  const Moments result = moments({at::full({3, kWidth}, largest)});
  EXPECT_TRUE(result.gram.isfinite().all().item<bool>());
}

TEST(Moments, RefuseOtherWidthsKindsAndDtypes) {
  Moments result = moments({});
  EXPECT_THROW(result.add(at::zeros({3, kWidth + 1})), c10::Error);
  EXPECT_THROW(result.add(at::zeros({3, kWidth}, at::kDouble)), c10::Error);
}

}  // namespace
}  // namespace dotresize
