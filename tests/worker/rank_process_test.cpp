#include "worker/commands/run/rank_process.h"

#include <gtest/gtest.h>

namespace dotresize {
namespace {

cpu_set_t from_to(size_t first, size_t end) {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  for (size_t core = first; core < end; ++core) CPU_SET(core, &cores);
  return cores;
}

TEST(FairShareOfCores, RanksThatAreNotBoundDivideTheHost) {
  EXPECT_EQ(fair_share_of_cores({0, {from_to(0, 16)}}), 16);
  EXPECT_EQ(fair_share_of_cores({2, {from_to(0, 16), from_to(0, 16), from_to(0, 16)}}), 5);
  EXPECT_EQ(fair_share_of_cores({1, {from_to(0, 10), from_to(0, 10)}}), 5);
}

TEST(FairShareOfCores, RanksThatAreBoundHaveAllTheirCores) {
  const HostRanks ranks{1, {from_to(0, 10), from_to(10, 20), from_to(20, 30)}};
  EXPECT_EQ(fair_share_of_cores(ranks), 10);
}

TEST(FairShareOfCores, RanksOfASocketDivideTheSocket) {
  const HostRanks ranks{3, {from_to(0, 8), from_to(0, 8), from_to(8, 16), from_to(8, 16)}};
  EXPECT_EQ(fair_share_of_cores(ranks), 4);
}

TEST(FairShareOfCores, IsAtLeastOne) {
  EXPECT_EQ(fair_share_of_cores({0, {from_to(0, 1), from_to(0, 1), from_to(0, 1)}}), 1);
}

}  // namespace
}  // namespace dotresize
