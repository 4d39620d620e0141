#include "worker/kernels/l1_cost.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <hwy/highway.h>

#include <cmath>
#include <functional>
#include <string>

#include "tests/kernels/l1_cost.h"
#include "tests/kernels/random_inputs.h"

namespace dotresize {
namespace {

/// Returns Σ_t |x[t, i] − x[t, j]|, summed token by token in float64.
at::Tensor reference_cost(const at::Tensor& x) {
  at::Tensor cost = at::zeros({x.size(1), x.size(1)}, at::kDouble);
  for (const at::Tensor& token : x.to(at::kDouble).unbind(0)) {
    cost += (token.unsqueeze(1) - token.unsqueeze(0)).abs();
  }
  return cost;
}

double relative_error(const at::Tensor& cost, const at::Tensor& reference) {
  const at::Tensor off_diagonal = reference > 0;
  EXPECT_EQ(cost.masked_select(~off_diagonal).abs().sum().item<double>(), 0.0);
  const at::Tensor errors = ((cost - reference) / reference).masked_select(off_diagonal).abs();
  return errors.numel() == 0 ? 0.0 : errors.max().item<double>();
}

class L1CostAtSize : public testing::TestWithParam<std::tuple<int64_t, int64_t>> {};

TEST_P(L1CostAtSize, AgreesWithFloat64) {
  const auto [tokens, width] = GetParam();
  const at::Tensor x = activations(tokens, width);
  const at::Tensor cost = l1_cost(x);
  EXPECT_LE(relative_error(cost, reference_cost(x)), 1e-6);
  EXPECT_TRUE(cost.equal(cost.t()));
}

INSTANTIATE_TEST_SUITE_P(AwkwardSizes, L1CostAtSize,
                         testing::Combine(testing::Values(0, 1, 7, 128, 512, 513, 2049),
                                          testing::Values(1, 2, 13, 32, 33, 97, 193, 256)));

struct Kind {
  const char* name;
  std::function<at::Tensor(const at::Tensor& noise)> make;  ///< noise: standard normal [n, d]
};

at::Tensor own_means(const at::Tensor& noise, double sigmas) {
  return (noise + sigmas * at::randn({noise.size(1)})).contiguous();
}

at::Tensor with_channels(const at::Tensor& noise, int64_t step, const at::Tensor& value) {
  at::Tensor x = noise.clone();
  x.slice(1, 0, c10::nullopt, step) = value;
  return x;
}

class L1CostOfKind : public testing::TestWithParam<Kind> {};

/// Sums of maxima cancel if channels are far from zero or nearly equal.
TEST_P(L1CostOfKind, AgreesWithFloat64) {
  for (const int64_t tokens : {64, 700}) {
    const at::Tensor x = GetParam().make(activations(tokens, 130));
    EXPECT_LE(relative_error(l1_cost(x), reference_cost(x)), 1e-6) << tokens;
  }
}

const Kind kKinds[] = {
    {"OneMeanFarFromZero", [](const at::Tensor& x) { return x + 30.0; }},
    {"MeansOfTheirOwnFarFromZero", [](const at::Tensor& x) { return own_means(x, 30.0); }},
    {"MeansOfTheirOwnNearZero", [](const at::Tensor& x) { return own_means(x, 1.0); }},
    {"FewMeans",
     [](const at::Tensor& x) {
       return x + 1000.0 * at::arange(x.size(1)).remainder(3).to(at::kFloat);
     }},
    {"EqualChannels", [](const at::Tensor& x) { return with_channels(x, 5, x.narrow(1, 3, 1)); }},
    {"NearlyEqualChannels",
     [](const at::Tensor& x) { return (x.narrow(1, 0, 1) + 0.01 * x).contiguous(); }},
    {"DeadChannels", [](const at::Tensor& x) { return with_channels(x, 5, at::zeros({1})); }},
    {"OneMassiveChannel",
     [](const at::Tensor& x) { return with_channels(x, x.size(1) - 1, at::full({1}, 3000.0)); }},
    {"ScalesOfAnEigenbasis",
     [](const at::Tensor& x) { return x * at::linspace(6, -6, x.size(1)).exp(); }},
    // Equal terms are the worst case of a float32 sum: their rounding errors do not cancel.
    {"EqualTokens",
     [](const at::Tensor& x) { return x.narrow(0, 0, 1).expand_as(x).contiguous(); }},
};

INSTANTIATE_TEST_SUITE_P(Kinds, L1CostOfKind, testing::ValuesIn(kKinds),
                         [](const auto& test) { return std::string(test.param.name); });

TEST(L1Cost, IsZeroBetweenEqualChannels) {
  const at::Tensor cost = l1_cost(activations(100, 65).repeat_interleave(2, /*dim=*/1));
  EXPECT_EQ(cost.diagonal(1).slice(0, 0, c10::nullopt, 2).abs().max().item<double>(), 0.0);
}

TEST(L1Cost, AddsToWhatIsThere) {
  const at::Tensor x = activations(700, 45);
  at::Tensor cost = l1_cost(x);
  add_l1_cost(x, cost);
  mirror_upper_triangle(cost);
  EXPECT_TRUE(cost.equal(2 * l1_cost(x)));
}

TEST(L1Cost, OfTokensInTwoPartsIsTheSum) {
  const at::Tensor x = activations(1500, 45);
  at::Tensor cost = l1_cost(x.narrow(0, 0, 613));
  add_l1_cost(x.narrow(0, 613, 887), cost);
  mirror_upper_triangle(cost);
  EXPECT_LE(relative_error(cost, l1_cost(x)), 1e-6);
}

/// The width gives patches of several tiles, the last of which is cut off in both directions.
TEST(L1Cost, OfManyChannelsAgreesWithFloat64) {
  const at::Tensor x = activations(67, 1201);
  EXPECT_LE(relative_error(l1_cost(x), reference_cost(x)), 1e-6);
}

TEST(L1Cost, IsRoundedToTheLastPlaceOfTheShift) {
  const at::Tensor x = activations(700, 45);
  at::Tensor rounded = at::zeros({45, 45}, at::kDouble);
  add_l1_cost(x, rounded, /*shift=*/1.5 * std::exp2(52.0));
  mirror_upper_triangle(rounded);
  EXPECT_TRUE(rounded.equal(l1_cost(x).round()));
}

TEST(L1Cost, DoesNotDependOnTheNumberOfThreads) {
  const at::Tensor x = activations(1100, 203);
  const int threads = at::get_num_threads();
  at::set_num_threads(1);
  const at::Tensor alone = l1_cost(x);
  at::set_num_threads(5);
  const at::Tensor shared = l1_cost(x);
  at::set_num_threads(threads);
  EXPECT_TRUE(alone.equal(shared));
}

TEST(L1Cost, IsTheSameOnEveryInstructionSet) {
  const at::Tensor x = activations(600, 71);
  const at::Tensor cost = l1_cost(x);
  for (const int64_t target : hwy::SupportedAndGeneratedTargets()) {
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().DeInit();
    EXPECT_TRUE(l1_cost(x).equal(cost)) << hwy::TargetName(target);
  }
  hwy::SetSupportedTargetsForTest(0);
  hwy::GetChosenTarget().DeInit();
}

TEST(L1Cost, CarriesNaNsThrough) {
  at::Tensor x = activations(20, 5);
  x[3][2] = std::numeric_limits<float>::quiet_NaN();
  const at::Tensor cost = l1_cost(x);
  EXPECT_TRUE(cost.select(1, 2).isnan().all().item<bool>());
  EXPECT_TRUE(cost[0][1].isfinite().item<bool>());
}

TEST(L1Cost, RefusesWhatItCannotRead) {
  at::Tensor cost = at::zeros({4, 4}, at::kDouble);
  at::Tensor float_cost = at::zeros({4, 4});
  EXPECT_THROW(add_l1_cost(at::zeros({3, 5}), cost), c10::Error);
  EXPECT_THROW(add_l1_cost(at::zeros({3, 4}, at::kDouble), cost), c10::Error);
  EXPECT_THROW(add_l1_cost(at::zeros({4, 3}).t(), cost), c10::Error);
  EXPECT_THROW(add_l1_cost(at::zeros({3, 4}), float_cost), c10::Error);
}

}  // namespace
}  // namespace dotresize
