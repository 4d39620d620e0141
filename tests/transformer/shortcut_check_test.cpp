#include "worker/transformer/shortcut_check.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/transformer/whole_model.h"
#include "worker/maps/alignment.h"

namespace dotresize::testing {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kHiddenSize = 40;

/// Returns the shortcut [k_out, k_in] between two random orthonormal maps.
at::Tensor shortcut(int64_t k_in, int64_t k_out) {
  const at::Tensor M_in = random_orthogonal(kHiddenSize, 1).narrow(1, 0, k_in);
  const at::Tensor M_out = random_orthogonal(kHiddenSize, 2).narrow(1, 0, k_out);
  return at::mm(M_out.t(), M_in);
}

class ShortcutCheck : public ::testing::TestWithParam<at::ScalarType> {};

TEST_P(ShortcutCheck, AllowsTheRoundingOfWhatMapsGive) {
  for (const auto& [k_in, k_out] : {std::pair{24, 32}, {32, 24}, {40, 24}, {24, 40}, {40, 40}}) {
    EXPECT_EQ(shortcut_problem(shortcut(k_in, k_out).to(GetParam()), kHiddenSize), std::nullopt)
        << k_in << " to " << k_out;
  }
}

TEST_P(ShortcutCheck, FindsWhatStretches) {
  const at::Tensor stretched = (1.1 * shortcut(40, 40)).to(GetParam());
  EXPECT_THAT(shortcut_problem(stretched, kHiddenSize).value_or(""), HasSubstr("more than the 1"));
}

TEST_P(ShortcutCheck, FindsWhatShrinksWhereAMapIsARotation) {
  for (const auto& [k_in, k_out] : {std::pair{40, 24}, {24, 40}, {40, 40}}) {
    const at::Tensor shrunk = (0.9 * shortcut(k_in, k_out)).to(GetParam());
    EXPECT_THAT(shortcut_problem(shrunk, kHiddenSize).value_or(""), HasSubstr("less than the 1"));
  }
  EXPECT_EQ(shortcut_problem((0.9 * shortcut(24, 32)).to(GetParam()), kHiddenSize), std::nullopt);
}

/// Returns the factor [rank, k_in] of the aligned shortcut between two random orthonormal maps.
at::Tensor factor(int64_t k_in, int64_t k_out, int64_t rank) {
  const at::Tensor M_in = random_orthogonal(kHiddenSize, 1).narrow(1, 0, k_in);
  const at::Tensor M_out = random_orthogonal(kHiddenSize, 2).narrow(1, 0, k_out);
  return align(M_in, M_out, rank).A.t();
}

TEST_P(ShortcutCheck, AllowsTheRoundingOfFactors) {
  for (const auto& [k_in, k_out] : {std::pair{32, 32}, {24, 32}, {32, 24}, {40, 24}}) {
    for (const int64_t rank : {int64_t{1}, int64_t{40} - k_out}) {
      EXPECT_EQ(shortcut_factor_problem(factor(k_in, k_out, rank).to(GetParam()), k_out),
                std::nullopt)
          << k_in << " to " << k_out << " of rank " << rank;
    }
  }
}

TEST_P(ShortcutCheck, FindsFactorsThatStretch) {
  for (const auto& [k_in, k_out] : {std::pair{32, 32}, {24, 32}, {32, 24}}) {
    const at::Tensor stretched = (1.7 * factor(k_in, k_out, 40 - k_out)).to(GetParam());
    EXPECT_THAT(shortcut_factor_problem(stretched, k_out).value_or(""),
                HasSubstr("more than the 1"))
        << k_in << " to " << k_out;
  }
}

TEST_P(ShortcutCheck, FindsFactorsWhoseLowerRowsStretch) {
  at::Tensor stretched = factor(32, 24, 16).clone();
  stretched.narrow(1, 24, 8).mul_(3.0);
  EXPECT_THAT(shortcut_factor_problem(stretched.to(GetParam()), 24).value_or(""),
              HasSubstr("more than the 1"));
}

INSTANTIATE_TEST_SUITE_P(Dtypes, ShortcutCheck,
                         ::testing::Values(at::kFloat, at::kHalf, at::kBFloat16),
                         [](const auto& dtype) { return std::string(c10::toString(dtype.param)); });

}  // namespace
}  // namespace dotresize::testing
