#include <gtest/gtest.h>

#include "server/store/clocks.h"

namespace dotresize {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::seconds;

TEST(RunClock, AJobIsNoOlderForAWallClockThatWasSet) {
  RunClock clock;
  const RunClock::Clock::time_point start{hours(100)};
  EXPECT_EQ(clock.passed("j-1", seconds(0), start), seconds(0));
  EXPECT_EQ(clock.passed("j-1", hours(24), start + seconds(10)), seconds(10)) << "a day ahead";
  EXPECT_EQ(clock.passed("j-1", hours(-24), start + seconds(20)), seconds(20)) << "a day back";
}

TEST(RunClock, AJobOfAnEarlierServerIsAsOldAsTheWallClockSays) {
  RunClock clock;
  const RunClock::Clock::time_point now{hours(100)};
  EXPECT_EQ(clock.passed("j-1", seconds(60), now), seconds(60));
  EXPECT_EQ(clock.passed("j-1", seconds(61), now + seconds(1)), seconds(61));
  clock.forget("j-1");
  EXPECT_EQ(clock.passed("j-1", seconds(5), now + seconds(2)), seconds(5));
  EXPECT_EQ(clock.passed("j-2", seconds(-5), now), seconds(0));
}

TEST(TableClock, StaysWhenTheWallClockIsSetUntilItFollows) {
  const TableClock::Wall::time_point wall{hours(1000)};
  const TableClock::Steady::time_point steady{hours(10)};
  TableClock clock(wall, steady);
  EXPECT_EQ(clock.jump(wall + seconds(1), steady + seconds(1)), milliseconds(0));
  const milliseconds jump = clock.jump(wall - hours(24), steady + seconds(2));
  EXPECT_EQ(jump, -(hours(24) + seconds(2)));
  EXPECT_EQ(clock.now_ms(steady + seconds(2)), milliseconds(hours(1000) + seconds(2)).count());
  clock.follow(jump);
  EXPECT_EQ(clock.now_ms(steady + seconds(2)), milliseconds(hours(976)).count());
  EXPECT_EQ(clock.jump(wall - hours(24) + seconds(5), steady + seconds(7)), milliseconds(0));
}

}  // namespace
}  // namespace dotresize
