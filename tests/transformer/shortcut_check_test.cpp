#include "worker/transformer/shortcut_check.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/transformer/whole_model.h"

namespace dotresize::testing {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kHiddenSize = 40;

/// The shortcut [k_out, k_in] between two random orthonormal maps.
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

INSTANTIATE_TEST_SUITE_P(Dtypes, ShortcutCheck,
                         ::testing::Values(at::kFloat, at::kHalf, at::kBFloat16),
                         [](const auto& dtype) { return std::string(c10::toString(dtype.param)); });

}  // namespace
}  // namespace dotresize::testing
