#include "worker/commands/progress.h"

#include <gtest/gtest.h>

namespace dotresize {
namespace {

std::vector<ProgressPhase> phases() {
  return {{.name = "evaluate_dense", .tokens = {100, 1.0}},
          {.name = "calibrate", .tokens = {200, 1.0}, .junctions = {4, 0.5}, .sublayers = {2, 0.5}},
          {.name = "finish", .uncounted_seconds = 1.0}};
}

TEST(Progress, WeighsWorkByItsExpectedTime) {
  Progress progress(nullptr);
  progress.plan(phases());
  progress.enter("evaluate_dense");
  progress.add({.tokens = 50});
  EXPECT_DOUBLE_EQ(progress.state().fraction(), 0.125);
  progress.enter("calibrate");
  EXPECT_DOUBLE_EQ(progress.state().fraction(), 0.25);
  progress.add({.tokens = 200});
  EXPECT_DOUBLE_EQ(progress.state().fraction(), 0.5);
  progress.add({.junctions = 2});
  EXPECT_DOUBLE_EQ(progress.state().fraction(), 0.5625);
  progress.add({.sublayers = 2});
  EXPECT_DOUBLE_EQ(progress.state().fraction(), 0.6875);
}

TEST(Progress, CutsMoveItWhileNoTokensPass) {
  Progress progress(nullptr);
  progress.plan({{.name = "calibrate", .tokens = {200, 1.0}, .cuts = {4'000'000'000'000, 3.0}}});
  progress.enter("calibrate");
  progress.add({.tokens = 200});
  EXPECT_DOUBLE_EQ(progress.state().fraction(), 0.25);
  progress.add({.cuts = 2'000'000'000'000});
  EXPECT_DOUBLE_EQ(progress.state().fraction(), 0.625);
}

TEST(Progress, WhatAnInterruptedRunHasFoundDoesNotMakeThisOneFaster) {
  Progress resumed(nullptr);
  resumed.plan(phases());
  resumed.enter("calibrate");  // the dense model's perplexity is already known
  resumed.add({.junctions = 3}, /*found=*/true);
  EXPECT_DOUBLE_EQ(resumed.state().fraction(), 0.34375);
  EXPECT_LT(resumed.state().eta_s(), 0.0);
  resumed.add({.tokens = 100});
  EXPECT_GT(resumed.state().eta_s(), 0.0);
  Progress fresh(nullptr);
  fresh.plan(phases());
  fresh.enter("evaluate_dense");
  fresh.add({.tokens = 100});
  fresh.enter("calibrate");
  fresh.add({.junctions = 3});
  fresh.add({.tokens = 100});
  EXPECT_DOUBLE_EQ(fresh.state().fraction(), resumed.state().fraction());
}

TEST(Progress, CountsJunctionsOverTheWholeJob) {
  Progress progress(nullptr);
  progress.plan(phases());
  progress.enter("calibrate");
  progress.add({.junctions = 3});
  EXPECT_EQ(progress.state().junctions_done(), 3);
  progress.enter("finish");
  EXPECT_EQ(progress.state().junctions_done(), 4);
  EXPECT_EQ(progress.state().junctions_total(), 4);
}

TEST(Progress, NeverExceedsItsPhase) {
  Progress progress(nullptr);
  progress.plan(phases());
  progress.enter("evaluate_dense");
  progress.add({.tokens = 1000});
  EXPECT_DOUBLE_EQ(progress.state().fraction(), 0.25);
}

TEST(Progress, TellsOfEachChange) {
  std::vector<std::string> seen;
  Progress progress([&](const v1::Progress& state) { seen.push_back(state.phase()); });
  progress.plan(phases());
  progress.enter("calibrate");
  progress.add({.tokens = 1});
  EXPECT_EQ(seen, (std::vector<std::string>{"calibrate", "calibrate"}));
}

TEST(Progress, RefusesAPhaseThatWasNotPlanned) {
  Progress progress(nullptr);
  progress.plan(phases());
  EXPECT_THROW(progress.enter("lunch"), std::logic_error);
}

}  // namespace
}  // namespace dotresize
