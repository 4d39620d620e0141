#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "worker/maps/junction_solver.h"

namespace dotresize {
namespace {

at::Tensor indices(std::vector<int64_t> values) { return at::tensor(values, at::kLong); }

TEST(Support, HoldsTheLargestScoresInAscendingOrder) {
  const at::Tensor scores = at::tensor({0.5, 3.0, 1.0, 4.0, 2.0}, at::kDouble);
  EXPECT_TRUE(select_support(scores, 3).equal(indices({1, 3, 4})));
}

TEST(Support, PrefersTheLowerIndexAmongEquals) {
  const at::Tensor scores = at::tensor({1.0, 2.0, 1.0, 2.0, 1.0, 1.0}, at::kDouble);
  EXPECT_TRUE(select_support(scores, 3).equal(indices({0, 1, 3})));
  EXPECT_TRUE(select_support(at::ones({1000}, at::kDouble), 300).equal(at::arange(300)));
}

TEST(Support, CanBeEverythingOrNothing) {
  const at::Tensor scores = at::tensor({3.0, 1.0, 2.0}, at::kDouble);
  EXPECT_TRUE(select_support(scores, 3).equal(indices({0, 1, 2})));
  EXPECT_EQ(select_support(scores, 0).numel(), 0);
}

TEST(Support, RefusesMoreThanThereIs) {
  EXPECT_THROW(select_support(at::ones({3}, at::kDouble), 4), c10::Error);
  EXPECT_THROW(select_support(at::ones({3}, at::kDouble), -1), c10::Error);
}

}  // namespace
}  // namespace dotresize
