#include "base/process/child_process.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <string>
#include <system_error>

#include "base/errors.h"
#include "base/process/program.h"

namespace dotresize {
namespace {

using namespace std::chrono_literals;

TEST(RunChild, GivesExitCodeAndLastLine) {
  const ChildResult ended = run_child({"sh", "-c", "echo first >&2; echo last >&2; exit 65"});
  EXPECT_EQ(ended.exit_code, 65);
  EXPECT_EQ(ended.last_line, "last");
  EXPECT_EQ(run_child({"sh", "-c", "kill -9 $$"}).exit_code, 128 + SIGKILL);
}

TEST(RunChild, PassesArgumentsWithoutAShell) {
  EXPECT_EQ(run_child({"sh", "-c", "echo \"$1\" >&2", "sh", "a b; $HOME 'c'"}).last_line,
            "a b; $HOME 'c'");
}

TEST(RunChild, HasNoInputAndNoBlockedSignals) {
  sigset_t blocked;
  sigset_t before;
  sigemptyset(&blocked);
  sigaddset(&blocked, SIGTERM);
  ::sigprocmask(SIG_BLOCK, &blocked, &before);
  EXPECT_EQ(run_child({"sh", "-c", "cat; kill -TERM $$"}).exit_code, 128 + SIGTERM);
  ::sigprocmask(SIG_SETMASK, &before, nullptr);
}

TEST(RunChild, SaysWhatCannotBeStarted) {
  EXPECT_THAT([] { run_child({"/no/such/program"}); },
              testing::ThrowsMessage<std::system_error>(
                  "cannot start /no/such/program: No such file or directory"));
}

TEST(RunChild, EndsAStoppedProgramAndOneThatWaitsForNothing) {
  const ChildResult stopped = run_child({"sh", "-c", "echo begun >&2; kill -STOP $$"}, 1s);
  EXPECT_TRUE(stopped.hung);
  EXPECT_EQ(stopped.last_line, "begun");
  EXPECT_TRUE(run_child({"sleep", "300"}, 1s).hung);
  EXPECT_TRUE(run_child({"sh", "-c", "exec sleep 300 2>&-"}, 1s).hung);
}

/// The program itself does nothing, as the wrapper of a Python does.
TEST(RunChild, WaitsForAProgramWhoseChildWorks) {
  const std::string work = "end=$(($(date +%s) + 3)); while [ $(date +%s) -lt $end ]; do :; done";
  const ChildResult ended = run_child({"sh", "-c", "sh -c '" + work + "'; exit 7"}, 1s);
  EXPECT_FALSE(ended.hung);
  EXPECT_EQ(ended.exit_code, 7);
}

TEST(CaptureChild, GivesWhatIsWrittenAndTheExitCode) {
  const std::string many = "i=0; while [ $i -lt 20000 ]; do echo 12345678; i=$((i+1)); done; ";
  const CapturedChild ended =
      capture_child({"sh", "-c", many + "echo first >&2; echo last >&2; exit 65"}, 60s);
  EXPECT_EQ(ended.exit_code, 65);
  EXPECT_EQ(ended.output.size(), 20000 * 9);
  EXPECT_EQ(ended.last_line, "last");
}

TEST(CaptureChild, ReturnsTheEndOfManyErrors) {
  const std::string many = "i=0; while [ $i -lt 20000 ]; do echo 12345678 >&2; i=$((i+1)); done; ";
  const CapturedChild ended = capture_child({"sh", "-c", many + "echo last >&2"}, 60s);
  EXPECT_EQ(ended.last_line, "last");
  EXPECT_EQ(ended.errors.size(), size_t{64} * 1024);
}

TEST(CaptureChild, KillsWhatDoesNotEnd) {
  const CapturedChild killed = capture_child({"sh", "-c", "echo begun; exec sleep 300"}, 1s);
  EXPECT_EQ(killed.exit_code, 128 + SIGKILL);
  EXPECT_EQ(killed.output, "begun\n");
}

TEST(CaptureChild, KillsWhatDoesNotEndOnceItHasClosedItsPipes) {
  const CapturedChild killed = capture_child({"sh", "-c", "exec sleep 300 >&- 2>&-"}, 1s);
  EXPECT_EQ(killed.exit_code, 128 + SIGKILL);
}

struct Recorded : ProgramOutput {
  void standard_output(std::string_view bytes) override { output += bytes; }
  void standard_error(std::string_view bytes) override { error += bytes; }
  void tick() override {}

  std::string output, error;
};

TEST(RunProgram, HandsOnWhatIsWrittenAndTheExitCode) {
  Recorded recorded;
  const std::string many = "i=0; while [ $i -lt 20000 ]; do echo 12345678; i=$((i+1)); done; ";
  EXPECT_EQ(run_program({"sh", "-c", many + "echo last >&2; exit 65"}, recorded), 65);
  EXPECT_EQ(recorded.output.size(), 20000 * 9);
  EXPECT_EQ(recorded.error, "last\n");
}

TEST(RunProgram, ItsOrphansDoNotKeepItRunning) {
  Recorded recorded;
  EXPECT_EQ(run_program({"sh", "-c", "sleep 600 & echo $!"}, recorded), 0);
  ::kill(std::stoi(recorded.output), SIGKILL);
}

TEST(RunProgram, ASignalToUsEndsItAndIsACancel) {
  struct Stopper : Recorded {
    void standard_output(std::string_view) override { ::kill(::getpid(), SIGINT); }
  } stopper;
  EXPECT_EQ(run_program({"sh", "-c", "echo begun; exec sleep 600"}, stopper), kExitCancelled);
}

struct StopOnceItWrites : Recorded {
  void standard_output(std::string_view) override { source.request_stop(); }

  std::stop_source source;
};

TEST(RunProgram, AStopEndsIt) {
  StopOnceItWrites output;
  EXPECT_EQ(
      run_program({"sh", "-c", "echo begun; exec sleep 600"}, output, output.source.get_token()),
      kExitCancelled);
}

TEST(RunProgram, AStopEndsWhatTakesNoSigterm) {
  StopOnceItWrites output;
  EXPECT_EQ(run_program({"sh", "-c", "trap '' TERM; echo begun; while :; do sleep 1; done"}, output,
                        output.source.get_token()),
            kExitCancelled);
}

TEST(RunProgram, WithoutAStopItEndsByItself) {
  Recorded recorded;
  EXPECT_EQ(run_program({"sh", "-c", "echo out; exit 65"}, recorded, std::stop_token()), 65);
  EXPECT_EQ(recorded.output, "out\n");
}

TEST(RunProgram, SaysWhatCannotBeStarted) {
  Recorded recorded;
  EXPECT_THROW(run_program({"/no/such/program"}, recorded), ProgramMissing);
}

}  // namespace
}  // namespace dotresize
