#include "worker/commands/progress.h"

#include <gtest/gtest.h>

namespace dotresize {
namespace {

std::vector<ProgressPhase> phases() {
  return {{"evaluate_dense", 1.0, 100, 0}, {"calibrate", 2.0, 200, 4}, {"finish", 1.0, 0, 0}};
}

TEST(Progress, WeighsPhasesByTheirExpectedTime) {
  Progress progress(nullptr);
  progress.plan(phases());
  progress.enter("evaluate_dense");
  progress.tokens_seen(50);
  EXPECT_DOUBLE_EQ(progress.state().fraction, 0.125);
  progress.enter("calibrate");
  EXPECT_DOUBLE_EQ(progress.state().fraction, 0.25);
  progress.tokens_seen(200);
  EXPECT_DOUBLE_EQ(progress.state().fraction, 0.5);
  progress.junctions_solved(2);
  EXPECT_DOUBLE_EQ(progress.state().fraction, 0.625);
}

TEST(Progress, CountsJunctionsOverTheWholeJob) {
  Progress progress(nullptr);
  progress.plan(phases());
  progress.enter("calibrate");
  progress.junctions_solved(3);
  EXPECT_EQ(progress.state().junctions_done, 3);
  progress.enter("finish");
  EXPECT_EQ(progress.state().junctions_done, 4);
  EXPECT_EQ(progress.state().junctions_total, 4);
}

TEST(Progress, NeverExceedsItsPhase) {
  Progress progress(nullptr);
  progress.plan(phases());
  progress.enter("evaluate_dense");
  progress.tokens_seen(1000);
  EXPECT_DOUBLE_EQ(progress.state().fraction, 0.25);
}

TEST(Progress, TellsOfEachChange) {
  std::vector<std::string> seen;
  Progress progress([&](const ProgressState& state) { seen.push_back(state.phase); });
  progress.plan(phases());
  progress.enter("calibrate");
  progress.tokens_seen(1);
  EXPECT_EQ(seen, (std::vector<std::string>{"calibrate", "calibrate"}));
}

TEST(Progress, RefusesAPhaseThatWasNotPlanned) {
  Progress progress(nullptr);
  progress.plan(phases());
  EXPECT_THROW(progress.enter("lunch"), std::logic_error);
}

}  // namespace
}  // namespace dotresize
