#include "worker/maps/alignment.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

namespace dotresize {
namespace {

at::Tensor orthonormal(int64_t d, int64_t k) {
  return std::get<0>(at::linalg_qr(at::randn({d, k}, at::kDouble), "reduced"));
}

double largest(const at::Tensor& tensor) {
  return tensor.numel() == 0 ? 0.0 : tensor.abs().max().item<double>();
}

/// Returns the first `rows` rows of A, padded with rows of zeros.
at::Tensor fitted(const at::Tensor& A, int64_t rows) {
  at::Tensor result = at::zeros({rows, A.size(1)}, A.options());
  const int64_t common = std::min(rows, A.size(0));
  result.narrow(0, 0, common).copy_(A.narrow(0, 0, common));
  return result;
}

at::Tensor shortcut_of(const at::Tensor& A, int64_t k_out) {
  return at::eye(A.size(0), k_out, at::kDouble) - at::mm(A, fitted(A, k_out).t());
}

struct Widths {
  int64_t d, in, out;
  int64_t rank() const { return std::min({in, out, d - out}); }
};

class Aligned : public testing::TestWithParam<Widths> {
 protected:
  void SetUp() override { at::manual_seed(GetParam().d + GetParam().in); }
};

TEST_P(Aligned, LeavesTheIdentityAndAProductOfLowRank) {
  const auto [d, k_in, k_out] = GetParam();
  const at::Tensor M_in = orthonormal(d, k_in);
  const at::Tensor M_out = orthonormal(d, k_out);
  const Alignment found = align(M_in, M_out, GetParam().rank());
  ASSERT_EQ(found.A.sizes(), (at::IntArrayRef{k_in, GetParam().rank()}));
  EXPECT_LT(largest(at::mm(found.turn.t(), found.turn) - at::eye(k_out, at::kDouble)), 1e-12);
  const at::Tensor shortcut = at::mm(M_in.t(), at::mm(M_out, found.turn));
  EXPECT_LT(largest(shortcut - shortcut_of(found.A, k_out)), 1e-12);
}

TEST_P(Aligned, MapsThatAreAlignedAreTurnedNoMore) {
  const auto [d, k_in, k_out] = GetParam();
  const at::Tensor M_in = orthonormal(d, k_in);
  const at::Tensor M_out = orthonormal(d, k_out);
  const at::Tensor turned = at::mm(M_out, align(M_in, M_out, GetParam().rank()).turn);
  const at::Tensor again = at::mm(turned, align(M_in, turned, GetParam().rank()).turn);
  const int64_t common = std::min(k_in, k_out);  // the other columns may be in any order
  EXPECT_LT(largest(again.narrow(1, 0, common) - turned.narrow(1, 0, common)), 1e-7);
}

TEST_P(Aligned, ASmallerRankKeepsWhatDiffersMost) {
  const auto [d, k_in, k_out] = GetParam();
  const at::Tensor M_in = orthonormal(d, k_in);
  const at::Tensor M_out = orthonormal(d, k_out);
  double before = 1e300;
  for (int64_t rank = 0; rank <= GetParam().rank(); ++rank) {
    const Alignment found = align(M_in, M_out, rank);
    const at::Tensor exact = at::mm(M_in.t(), at::mm(M_out, found.turn));
    const double left_out = (exact - shortcut_of(found.A, k_out)).norm().item<double>();
    EXPECT_LE(left_out, before + 1e-12) << rank;
    before = left_out;
    if (k_in > k_out) continue;
    // No other matrix of this rank is nearer between these widths (Eckart and Young).
    const at::Tensor values =
        at::linalg_svdvals(exact - at::eye(k_in, k_out, at::kDouble)).slice(0, rank);
    EXPECT_NEAR(left_out, values.norm().item<double>(), 1e-10) << rank;
  }
  EXPECT_LT(before, 1e-10);
}

TEST_P(Aligned, SelectedChannelsAreExactToo) {
  const auto [d, k_in, k_out] = GetParam();
  const at::Tensor M_in =
      at::eye(d, at::kDouble).index_select(1, at::randperm(d).slice(0, 0, k_in));
  const at::Tensor M_out =
      at::eye(d, at::kDouble).index_select(1, at::randperm(d).slice(0, 0, k_out));
  const Alignment found = align(M_in, M_out, GetParam().rank());
  const at::Tensor shortcut = at::mm(M_in.t(), at::mm(M_out, found.turn));
  EXPECT_LT(largest(shortcut - shortcut_of(found.A, k_out)), 1e-12);
}

INSTANTIATE_TEST_SUITE_P(Widths, Aligned,
                         testing::Values(Widths{24, 17, 17}, Widths{24, 13, 19}, Widths{24, 19, 13},
                                         Widths{24, 24, 17}, Widths{24, 17, 24}, Widths{24, 24, 24},
                                         Widths{24, 7, 7}, Widths{24, 7, 11}, Widths{24, 23, 5},
                                         Widths{24, 1, 1}, Widths{1, 1, 1}),
                         [](const auto& widths) {
                           return "Of" + std::to_string(widths.param.d) + "From" +
                                  std::to_string(widths.param.in) + "To" +
                                  std::to_string(widths.param.out);
                         });

TEST(Aligned, EqualMapsNeedNothingButTheIdentity) {
  at::manual_seed(5);
  const at::Tensor M = orthonormal(24, 17);
  for (const at::Tensor& other : {M, at::mm(M, orthonormal(17, 17))}) {
    const Alignment found = align(M, other, 7);
    EXPECT_LT(largest(found.A), 1e-7);
    EXPECT_LT(largest(at::mm(other, found.turn) - M), 1e-12);
  }
}

TEST(CompleteBasis, IsOrthogonalAndBeginsWithTheMap) {
  at::manual_seed(6);
  for (const int64_t k : {1, 17, 24}) {
    const at::Tensor M = orthonormal(24, k);
    const at::Tensor basis = complete_basis(M);
    EXPECT_TRUE(at::equal(basis.narrow(1, 0, k), M));
    EXPECT_LT(largest(at::mm(basis.t(), basis) - at::eye(24, at::kDouble)), 1e-12);
  }
}

/// Returns an oblique map with these columns.
JunctionMap oblique(const at::Tensor& M) {
  const int64_t d = M.size(0);
  const at::Tensor others = complete_basis(M).narrow(1, M.size(1), d - M.size(1));
  const at::Tensor slant = at::randn({M.size(1), d - M.size(1)}, at::kDouble);
  return {M, M.t() + at::mm(slant, others.t())};
}

TEST(AlignOblique, LeavesTheIdentityAndAProductOfLowRank) {
  at::manual_seed(5);
  for (const auto& [d, k] : {std::pair<int64_t, int64_t>{24, 18}, {24, 23}, {24, 24}, {24, 7}}) {
    const JunctionMap in = oblique(orthonormal(d, k));
    const at::Tensor M_out = orthonormal(d, k);
    const int64_t rank = std::min(k, d - k);
    const Alignment found = align_oblique(in, M_out, rank);
    ASSERT_EQ(found.A.sizes(), (at::IntArrayRef{k, rank}));
    ASSERT_EQ(found.B.sizes(), (at::IntArrayRef{rank, k}));
    const at::Tensor shortcut = at::mm(in.M_inv, at::mm(M_out, found.turn));
    const at::Tensor identity = at::eye(k, at::kDouble);
    EXPECT_LT(largest(shortcut - identity - at::mm(found.A, found.B)), 1e-10) << k;
    EXPECT_LT(largest(found.turn - align(in.M, M_out, rank).turn), 1e-12);
  }
}

TEST(AlignOblique, LeavesLittleBetweenMapsOfUnequalWidths) {
  at::manual_seed(8);
  constexpr int64_t kChannels = 24;
  for (const auto& [k_in, k_out] : {std::pair<int64_t, int64_t>{18, 21},
                                    {21, 18},
                                    {7, 20},
                                    {20, 7},
                                    {24, 18},
                                    {18, 24},
                                    {24, 24}}) {
    const JunctionMap in = oblique(orthonormal(kChannels, k_in));
    const at::Tensor M_out = orthonormal(kChannels, k_out);
    const int64_t narrower = std::min(k_in, k_out);
    const int64_t rank = std::min(narrower, kChannels - narrower);
    const Alignment found = align_oblique(in, M_out, rank);
    ASSERT_EQ(found.A.sizes(), (at::IntArrayRef{k_in, rank}));
    ASSERT_EQ(found.B.sizes(), (at::IntArrayRef{rank, k_out}));
    const at::Tensor shortcut = at::mm(in.M_inv, at::mm(M_out, found.turn));
    const at::Tensor identity = at::eye(k_in, k_out, at::kDouble);
    EXPECT_LT(largest(shortcut - identity - at::mm(found.A, found.B)), 1e-10)
        << k_in << " to " << k_out;
    EXPECT_LT(largest(at::mm(found.turn.t(), found.turn) - at::eye(k_out, at::kDouble)), 1e-12);
  }
}

TEST(AlignOblique, CutToARankIsTheNearestOfIt) {
  at::manual_seed(6);
  const JunctionMap in = oblique(orthonormal(24, 18));
  const at::Tensor M_out = orthonormal(24, 18);
  const Alignment found = align_oblique(in, M_out, 2);
  const at::Tensor rest = at::mm(in.M_inv, at::mm(M_out, found.turn)) - at::eye(18, at::kDouble);
  const at::Tensor values = at::linalg_svdvals(rest);
  const double left = (rest - at::mm(found.A, found.B)).norm().item<double>();
  EXPECT_NEAR(left, values.narrow(0, 2, 16).norm().item<double>(), 1e-9);
}

TEST(AlignOblique, ToTheWholeWidthNeedsWhatThereIsBeyondTheMap) {
  at::manual_seed(7);
  const JunctionMap in = oblique(orthonormal(24, 18));
  const at::Tensor basis = complete_basis(in.M);
  const Alignment found = align_oblique_to_whole(in, basis, 6);
  const at::Tensor shortcut = at::mm(in.M_inv, basis);
  const at::Tensor padded = at::eye(18, 24, at::kDouble);
  EXPECT_LT(largest(shortcut - padded - at::mm(found.A, found.B)), 1e-10);
}

class Spreading : public testing::TestWithParam<int64_t> {};

TEST_P(Spreading, IsOrthogonalAndHasNoLargeEntry) {
  const int64_t k = GetParam();
  const at::Tensor R = spreading_rotation(k);
  EXPECT_LT(largest(at::mm(R.t(), R) - at::eye(k, at::kDouble)), 1e-12);
  EXPECT_LE(largest(R), std::sqrt(2.0 / static_cast<double>(k)));
  EXPECT_TRUE(at::equal(R, spreading_rotation(k)));
}

INSTANTIATE_TEST_SUITE_P(Widths, Spreading, testing::Values(1, 2, 97, 224));

}  // namespace
}  // namespace dotresize
