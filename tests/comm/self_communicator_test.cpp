#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <thread>

#include "worker/comm/communicator.h"

namespace dotresize {
namespace {

TEST(SelfCommunicator, LeavesItsTensorsAlone) {
  SelfCommunicator self;
  at::Tensor tensor = at::arange(4, at::kFloat);
  self.broadcast(tensor, 0);
  self.reduce_sum(tensor, 0);
  self.all_reduce_sum(tensor);
  EXPECT_TRUE(at::equal(tensor, at::arange(4, at::kFloat)));
  EXPECT_EQ(gather_strings(self, "alone", 0), std::vector<std::string>{"alone"});
}

TEST(SelfCommunicator, HasNobodyToSendTo) {
  SelfCommunicator self;
  at::Tensor tensor = at::zeros({1});
  EXPECT_THROW(self.send(tensor, 1), std::logic_error);
  EXPECT_THROW(self.receive(tensor, 0), std::logic_error);
}

TEST(PhaseClock, CountsTimeForTheInnermostPhase) {
  const auto pause = [] { std::this_thread::sleep_for(std::chrono::milliseconds(20)); };
  PhaseClock clock;
  {
    const PhaseClock::Scope outer(clock, "outer");
    {
      const PhaseClock::Scope inner(clock, "inner");
      for (int i = 0; i < 5; ++i) pause();
    }
    pause();
  }
  EXPECT_GE(clock.seconds().at("inner"), 0.1);
  EXPECT_GE(clock.seconds().at("outer"), 0.02);
  EXPECT_LT(clock.seconds().at("outer"), clock.seconds().at("inner"));
}

TEST(PhaseClock, KeepsSpansOnRequest) {
  PhaseClock silent;
  { const PhaseClock::Scope scope(silent, "outer"); }
  EXPECT_TRUE(silent.spans().empty());

  PhaseClock clock(/*keeps_spans=*/true);
  {
    const PhaseClock::Scope outer(clock, "outer");
    const PhaseClock::Scope inner(clock, "inner", "embed");
  }
  ASSERT_EQ(clock.spans().size(), 2U);
  const PhaseClock::Span& inner = clock.spans()[0];
  const PhaseClock::Span& outer = clock.spans()[1];
  EXPECT_EQ(inner.phase, "inner");
  EXPECT_EQ(inner.detail, "embed");
  EXPECT_EQ(outer.phase, "outer");
  EXPECT_LE(0.0, outer.begin_s);
  EXPECT_LE(outer.begin_s, inner.begin_s);
  EXPECT_LE(inner.begin_s, inner.end_s);
  EXPECT_LE(inner.end_s, outer.end_s);
}

TEST(TimedCommunicator, TellsCollectivesFromWaiting) {
  SelfCommunicator self;
  PhaseClock clock;
  TimedCommunicator timed(self, clock);
  at::Tensor tensor = at::zeros({1});
  timed.all_reduce_sum(tensor);
  EXPECT_TRUE(clock.seconds().contains("communicate"));
  EXPECT_FALSE(clock.seconds().contains("wait"));
  timed.barrier();
  EXPECT_TRUE(clock.seconds().contains("wait"));
}

}  // namespace
}  // namespace dotresize
