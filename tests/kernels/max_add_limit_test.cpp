#include "bench/max_add_limit.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>

namespace dotresize {
namespace {

TEST(MaxAddLimit, DoesMoreWorkInMoreTime) {
  EXPECT_EQ(run_max_add_limit(5), 5 * run_max_add_limit(1));
  // The shortest of a few runs counts, because others may use the processor.
  const auto seconds_of = [](size_t rounds) {
    double shortest = 1e9;
    for (int run = 0; run < 5; ++run) {
      const auto start = std::chrono::steady_clock::now();
      run_max_add_limit(rounds);
      const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
      shortest = std::min(shortest, seconds.count());
    }
    return shortest;
  };
  EXPECT_GT(seconds_of(size_t{1} << 20), seconds_of(1 << 10));
}

}  // namespace
}  // namespace dotresize
