#include "server/launch/launcher_queue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>
#include <functional>
#include <thread>

#include "server/store/files.h"
#include "tests/temporary_directory.h"

namespace dotresize {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;
using ::testing::Not;

/// A launcher that hangs when it is to submit or cancel an attempt named hang..., and that knows
/// the attempt `known` alone.
constexpr char kLauncher[] = R"(#!/bin/sh
cd "${0%/*}" && request=$(cat) && echo "$1 $request" >>calls
case "$1 $request" in
  status*) echo '{"attempts": {"known": {"state": "running"}}}' ;;
  *hang*) exec sleep 300 ;;
  cancel*refused*) echo not now >&2; exit 1 ;;
esac
)";

class LauncherQueueTest : public ::testing::Test {
 protected:
  LauncherQueueTest() {
    std::ofstream(home_ / "launcher") << kLauncher;
    ::chmod((home_ / "launcher").c_str(), 0700);
    queue_.emplace("toy", LauncherProgram{home_ / "launcher", 1s});
  }

  LauncherQueue::Standing follow(const std::string& name, bool fresh, bool unwanted = false) {
    return queue_->follow(name, {R"({"name": ")" + name + "\"}", "/f", home_ / (name + ".lock"),
                                 fresh, !fresh, unwanted});
  }
  std::string calls() const { return read_chunk(home_ / "calls", 0, 1 << 20); }
  static bool happens(const std::function<bool()>& condition) {
    const auto end = std::chrono::steady_clock::now() + 60s;
    while (!condition()) {
      if (std::chrono::steady_clock::now() > end) return false;
      std::this_thread::sleep_for(20ms);
    }
    return true;
  }

  const TemporaryDirectory home_;
  std::optional<LauncherQueue> queue_;
};

TEST_F(LauncherQueueTest, SubmissionsThatHangKeepNoOtherFromItsTurn) {
  for (const char* name : {"a", "b", "hang-1", "hang-2", "z"}) follow(name, /*fresh=*/true);
  follow("known", /*fresh=*/false);
  EXPECT_TRUE(happens([&] {
    return follow("a", true).submitted && follow("b", true).submitted &&
           follow("z", true).submitted;
  })) << calls();
  EXPECT_TRUE(happens([&] { return follow("known", false).answer.has_value(); }))
      << "no status question in a round with a call that hangs";
  EXPECT_THAT(queue_->faults().start, HasSubstr("submit did not end within 1 s"));
}

TEST_F(LauncherQueueTest, CancelsThatHangKeepNoOtherFromItsTurn) {
  follow("hang-1", /*fresh=*/false, /*unwanted=*/true);
  follow("hang-2", /*fresh=*/false, /*unwanted=*/true);
  follow("known", /*fresh=*/false, /*unwanted=*/true);
  follow("new", /*fresh=*/true);
  EXPECT_TRUE(happens([&] {
    return calls().find(R"(cancel {"folder":"/f","name":"known"})") != std::string::npos;
  }));
  EXPECT_TRUE(happens([&] { return follow("new", true).submitted; })) << calls();
  EXPECT_TRUE(happens([&] { return follow("known", false).answer.has_value(); }));
}

TEST_F(LauncherQueueTest, CancelThatFailsHoldsNoOtherAttempt) {
  follow("refused", /*fresh=*/false, /*unwanted=*/true);
  EXPECT_TRUE(happens([&] { return queue_->faults().last_round == "not now"; }));
  EXPECT_EQ(queue_->faults().start, "");
}

TEST_F(LauncherQueueTest, WhatIsCancelledWhileAnotherHangsIsNeverSubmitted) {
  follow("hang", /*fresh=*/true);
  follow("later", /*fresh=*/true);
  ASSERT_TRUE(happens([&] { return calls().find("submit") != std::string::npos; }));
  queue_->cancel("later");
  EXPECT_TRUE(happens([&] { return follow("later", true).over; }));
  EXPECT_THAT(calls(), Not(HasSubstr("later")));
}

}  // namespace
}  // namespace dotresize
