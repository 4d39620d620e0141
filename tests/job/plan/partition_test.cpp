#include <gmock/gmock.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "job/plan/shards/balanced_partition.h"

namespace dotresize {
namespace {

using Boundaries = std::vector<std::size_t>;

double largest_sum(const std::vector<double>& costs, const Boundaries& boundaries) {
  double largest = 0.0;
  for (std::size_t i = 0; i + 1 < boundaries.size(); ++i) {
    largest = std::max(largest, std::accumulate(costs.begin() + boundaries[i],
                                                costs.begin() + boundaries[i + 1], 0.0));
  }
  return largest;
}

/// Returns the smallest possible largest sum, found by trying every cut.
double best_largest_sum(const std::vector<double>& costs, std::size_t begin, std::size_t parts) {
  if (parts == 1) return std::accumulate(costs.begin() + begin, costs.end(), 0.0);
  double best = INFINITY;
  double sum = 0.0;
  for (std::size_t end = begin + 1; end + parts - 1 <= costs.size(); ++end) {
    sum += costs[end - 1];
    best = std::min(best, std::max(sum, best_largest_sum(costs, end, parts - 1)));
  }
  return best;
}

void expect_well_formed(const Boundaries& boundaries, std::size_t n, std::size_t parts) {
  ASSERT_EQ(boundaries.size(), parts + 1);
  EXPECT_EQ(boundaries.front(), 0u);
  EXPECT_EQ(boundaries.back(), n);
  EXPECT_TRUE(std::is_sorted(boundaries.begin(), boundaries.end(), std::less_equal<>()));
}

TEST(Partition, IsOptimalOnRandomCosts) {
  std::mt19937 random(7);
  for (int trial = 0; trial < 300; ++trial) {
    std::vector<double> costs(1 + random() % 10);
    for (double& cost : costs) cost = static_cast<double>(random() % 50);
    const std::size_t parts = 1 + random() % costs.size();
    const Boundaries boundaries = balanced_partition(costs, parts);
    expect_well_formed(boundaries, costs.size(), parts);
    EXPECT_DOUBLE_EQ(largest_sum(costs, boundaries), best_largest_sum(costs, 0, parts));
  }
}

TEST(Partition, EqualCostsAreDealtEvenly) {
  EXPECT_THAT(balanced_partition(std::vector<double>(12, 1.0), 4),
              testing::ElementsAre(0, 3, 6, 9, 12));
  // 12 costs over 8 parts: the largest sum is at least 2, and no part is empty.
  const Boundaries boundaries = balanced_partition(std::vector<double>(12, 1.0), 8);
  expect_well_formed(boundaries, 12, 8);
  EXPECT_EQ(largest_sum(std::vector<double>(12, 1.0), boundaries), 2.0);
}

TEST(Partition, OneCostThatDwarfsTheOthersDoesNotUnbalanceTheRest) {
  std::vector<double> costs(9, 1.0);
  costs.back() = 100.0;
  EXPECT_THAT(balanced_partition(costs, 5), testing::ElementsAre(0, 2, 4, 6, 8, 9));
}

TEST(Partition, HandlesTheLargestModelAtOnce) {
  const std::vector<double> costs(8192, 1e18);
  const Boundaries boundaries = balanced_partition(costs, 4096);
  expect_well_formed(boundaries, 8192, 4096);
  EXPECT_EQ(largest_sum(costs, boundaries), 2e18);
}

TEST(Partition, ZeroCostsStillGiveEachPartSomething) {
  expect_well_formed(balanced_partition(std::vector<double>(5, 0.0), 5), 5, 5);
  expect_well_formed(balanced_partition(std::vector<double>(5, 0.0), 3), 5, 3);
}

}  // namespace
}  // namespace dotresize
