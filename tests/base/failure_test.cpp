#include "base/failure.h"

#include <gtest/gtest.h>

#include "base/process/program.h"

namespace dotresize {
namespace {

Failure read_back(const Failure& failure) {
  const std::string line = failure_line(failure);
  EXPECT_EQ(line.find_first_of("\n\r\t\x1b"), std::string::npos);
  const auto parsed = parse_failure_line(line);
  EXPECT_TRUE(parsed) << line;
  return parsed.value_or(Failure{});
}

TEST(FailureLine, HasItsFixedForm) {
  EXPECT_EQ(failure_line({kInvalidInput, 1, "node-b", "calibrate", "method.width: 7"}),
            "dotresize-worker: error: rank 1 on node-b in calibrate: method.width: 7");
}

TEST(FailureLine, IsReadBackWhateverTheMessage) {
  for (const std::string message :
       {"", "disk full", "a: b: c", " in x: y", "rank 3 on node in fold: lost",
        "dotresize-worker: error: rank 2 on h in solve: m", "größe 'ä' ✓", "ends with: "}) {
    const Failure failure = read_back({kRankFailed, 12, "node-a.example.org", "solve", message});
    EXPECT_EQ(failure.rank, 12);
    EXPECT_EQ(failure.host, "node-a.example.org");
    EXPECT_EQ(failure.phase, "solve");
    EXPECT_EQ(failure.message, message);
  }
}

TEST(FailureLine, IsOnePrintableLine) {
  const Failure failure =
      read_back({kRankFailed, -1, "a b\n", "x: y", "first\nsecond\tthird\x1b[31m\xff"});
  EXPECT_EQ(failure.rank, -1);
  EXPECT_EQ(failure.host, "a?b?");
  EXPECT_EQ(failure.phase, "x? y");
  EXPECT_EQ(failure.message, "first second third?[31m?");
}

TEST(FailureLine, StandsForWhatIsEmptyAndCutsWhatIsLong) {
  const Failure failure = read_back({"", 0, "", "", std::string(5000, 'm')});
  EXPECT_EQ(failure.host, "?");
  EXPECT_EQ(failure.phase, "start");
  EXPECT_EQ(failure.message.size(), 5000u);
  const Failure cut = read_back({"", 0, std::string(300, 'h'), std::string(300, 'p'), "m"});
  EXPECT_EQ(cut.host, std::string(255, 'h'));
  EXPECT_EQ(cut.phase, std::string(64, 'p'));
}

TEST(FailureLine, IsNoOtherLine) {
  for (const char* line :
       {"", "dotresize-worker: error: disk full", "dotresize-worker: error: rank 1",
        "dotresize-worker: error: rank 1 on h", "dotresize-worker: error: rank 1 on h in p",
        "dotresize-worker: error: rank x on h in p: m",
        "dotresize-worker: error: rank  on h in p: m",
        "dotresize-worker: error: rank 99999999999 on h in p: m",
        " dotresize-worker: error: rank 1 on h in p: m"}) {
    EXPECT_FALSE(parse_failure_line(line)) << line;
  }
}

TEST(PrintableFailure, IsCutToWhatAMessageMayHold) {
  const Failure failure = printable(Failure{std::string(100, 'C'), 3, std::string(300, 'h'),
                                            std::string(100, 'p'), std::string(3000, 'm') + "\n"});
  EXPECT_EQ(failure.code.size(), 64u);
  EXPECT_EQ(failure.rank, 3);
  EXPECT_EQ(failure.host.size(), 255u);
  EXPECT_EQ(failure.phase.size(), 64u);
  EXPECT_EQ(failure.message.size(), 2000u);
}

TEST(FailureCode, FollowsTheExitCode) {
  EXPECT_STREQ(failure_code(kExitBadData), "INVALID_INPUT");
  EXPECT_STREQ(failure_code(127), "LAUNCH_FAILED");
  EXPECT_STREQ(failure_code(kExitJobFailed), "RANK_FAILED");
  EXPECT_STREQ(failure_code(-1), "RANK_FAILED");
}

}  // namespace
}  // namespace dotresize
