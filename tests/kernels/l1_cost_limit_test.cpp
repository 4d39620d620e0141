#include "worker/kernels/l1_cost_limit.h"

#include <gtest/gtest.h>

#include <chrono>

#include "worker/kernels/max_add_limit.h"

namespace dotresize {
namespace {

TEST(MaxAddLimit, DoesMoreWorkInMoreTime) {
  EXPECT_EQ(run_max_add_limit(5), 5 * run_max_add_limit(1));
  const auto seconds_of = [](size_t rounds) {
    const auto start = std::chrono::steady_clock::now();
    run_max_add_limit(rounds);
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  EXPECT_GT(seconds_of(size_t{1} << 20), seconds_of(1 << 10));
}

/// Within what any processor could do: it was not the empty loop that was measured.
TEST(L1CostLimit, IsThatOfAProcessor) {
  const double limit = measure_l1_cost_limit();
  EXPECT_GT(limit, 1e8);
  EXPECT_LT(limit, 1e15);
}

}  // namespace
}  // namespace dotresize
