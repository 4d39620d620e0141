#include "base/process/child_pool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <fstream>
#include <iterator>
#include <string>

#include "tests/temporary_directory.h"

namespace dotresize {
namespace {

using namespace std::chrono_literals;
using testing::EndsWith;
using testing::HasSubstr;
using testing::StartsWith;

class Pool : public testing::Test {
 protected:
  std::string log(const std::string& name) const {
    std::ifstream file(home_.path() / name);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  static std::vector<std::string> shell(const std::string& commands) {
    return {"sh", "-c", commands};
  }

  TemporaryDirectory home_;
};

TEST_F(Pool, EachProgramHasItsLogAndItsExitCode) {
  ChildPool pool;
  pool.start(7, shell("echo out; echo err >&2; exit 65"), home_.path() / "a");
  const auto first = pool.wait(20s);
  ASSERT_TRUE(first.has_value());
  EXPECT_EQ(first->number, 7u);
  EXPECT_EQ(first->exit_code, 65);
  EXPECT_EQ(log("a"), "out\nerr\n");
  pool.start(8, shell("echo again"), home_.path() / "a");
  EXPECT_EQ(pool.wait(20s)->exit_code, 0);
  EXPECT_EQ(log("a"), "out\nerr\nagain\n");
  EXPECT_EQ(pool.running(), 0u);
}

TEST_F(Pool, AProgramThatIsStoppedIsKilledAfterItsLimit) {
  ChildPool pool;
  pool.start(3, shell("kill -STOP $$"), home_.path() / "a", 1s);
  const auto ended = pool.wait(60s);
  ASSERT_TRUE(ended.has_value());
  EXPECT_TRUE(ended->hung);
  EXPECT_EQ(ended->exit_code, 128 + SIGKILL);
  pool.start(4, shell("echo quick"), home_.path() / "a", 1s);
  EXPECT_FALSE(pool.wait(60s)->hung);
}

TEST_F(Pool, LongLogKeepsItsBeginningAndItsEnd) {
  ChildPool pool(1000);
  pool.start(0, shell("seq 1 100000"), home_.path() / "a");
  pool.start(1, shell("seq 1 100"), home_.path() / "b");
  ASSERT_TRUE(pool.wait(20s).has_value());
  ASSERT_TRUE(pool.wait(20s).has_value());
  const std::string text = log("a");
  EXPECT_LT(text.size(), 1000u + 65536u + 200u);
  EXPECT_THAT(text, StartsWith("1\n2\n"));
  EXPECT_THAT(text, HasSubstr("the log has reached its limit"));
  EXPECT_THAT(text, EndsWith("\n99999\n100000\n"));
  EXPECT_THAT(log("b"), EndsWith("\n100\n"));
}

TEST_F(Pool, NobodyWaitsForWhatAProgramLeavesBehind) {
  ChildPool pool;
  pool.start(0, shell("sleep 60 & echo $!"), home_.path() / "a");
  const auto begin = std::chrono::steady_clock::now();
  ASSERT_TRUE(pool.wait(50s).has_value());
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 20s);
  ::kill(std::stoi(log("a")), SIGKILL);
}

TEST_F(Pool, ProgramThatWritesWithoutEndHoldsUpNobody) {
  ChildPool pool(1000);
  pool.start(0, {"yes"}, home_.path() / "a");
  pool.start(1, shell("sleep 0.2; echo done"), home_.path() / "b");
  const auto ended = pool.wait(20s);
  ASSERT_TRUE(ended.has_value());
  EXPECT_EQ(ended->number, 1u);
  EXPECT_FALSE(pool.wait(100ms).has_value());
  EXPECT_EQ(pool.running(), 1u);
}  // the pool ends the child that is left

}  // namespace
}  // namespace dotresize
