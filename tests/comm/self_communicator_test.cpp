#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <thread>

#include "worker/comm/timed_communicator.h"

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

TEST(TimedCommunicator, BooksItsTimeAsCommunication) {
  SelfCommunicator self;
  PhaseClock clock;
  TimedCommunicator timed(self, clock);
  at::Tensor tensor = at::zeros({1});
  timed.all_reduce_sum(tensor);
  timed.barrier();
  EXPECT_TRUE(clock.seconds().contains("communicate"));
}

}  // namespace
}  // namespace dotresize
