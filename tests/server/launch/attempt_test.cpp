#include "server/launch/attempt.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <chrono>
#include <csignal>
#include <functional>
#include <thread>

#include "server/launch/process_table.h"
#include "server/store/files.h"
#include "tests/temporary_directory.h"

namespace dotresize {
namespace {

using namespace std::chrono_literals;
namespace fs = std::filesystem;

bool happens_within(std::chrono::seconds time, const std::function<bool()>& condition) {
  const auto end = std::chrono::steady_clock::now() + time;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(20ms);
  }
  return true;
}

class Attempt : public ::testing::Test {
 protected:
  Attempt() : dir_(home_.path() / "attempt-1") {}
  ~Attempt() override {
    for (const pid_t pid : processes_with_environment({mark()})) ::kill(pid, SIGKILL);
    if (supervisor_ > 0) ::waitpid(supervisor_, nullptr, 0);
  }

  std::string mark() const { return "DOTRESIZE_JOB_ID=" + home_.path().filename().string(); }

  AttemptCommand command(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), STAND_IN);
    return {dir_, std::move(arguments), {mark(), "PATH=/usr/bin:/bin"}, SERVER};
  }
  void start(std::vector<std::string> arguments) {
    supervisor_ = start_attempt(command(std::move(arguments))).pid();
  }

  Liveness liveness() const { return check_attempt(dir_).liveness; }
  bool announced() const { return read_supervisor_record(dir_).has_value(); }
  size_t processes() const { return processes_with_environment({mark()}).size(); }
  std::string log() const { return read_chunk(home_.path() / "log", 0, 10000); }
  ExitRecord exit_within(std::chrono::seconds time) {
    EXPECT_TRUE(happens_within(time, [&] { return liveness() == Liveness::kExited; }));
    return check_attempt(dir_).exit;
  }

  TemporaryDirectory home_;
  fs::path dir_;
  pid_t supervisor_ = 0;
};

TEST_F(Attempt, ExitCodeAndOutputAreKept) {
  home_.write("log", "earlier attempt\n");
  start({"exit", "65"});
  const ExitRecord exit = exit_within(20s);
  EXPECT_EQ(exit.exit_code, 65);
  EXPECT_EQ(exit.signal, 0);
  EXPECT_EQ(log(), "earlier attempt\nstand-in: exit\n");
  EXPECT_EQ(read_supervisor_record(dir_)->log_offset, 16);
}

TEST_F(Attempt, SignalOfTheCommandIsKept) {
  start({"die", "9"});
  const ExitRecord exit = exit_within(20s);
  EXPECT_EQ(exit.exit_code, -1);
  EXPECT_EQ(exit.signal, SIGKILL);
}

TEST_F(Attempt, MissingProgramIsSaidInTheLog) {
  AttemptCommand missing = command({});
  missing.command = {"/no/such/program"};
  supervisor_ = start_attempt(missing).pid();
  EXPECT_EQ(exit_within(20s).exit_code, 127);
  EXPECT_THAT(log(), ::testing::HasSubstr("cannot run /no/such/program"));
}

TEST_F(Attempt, CommandInheritsNoDescriptors) {
  start({"descriptors"});
  EXPECT_EQ(exit_within(20s).exit_code, 0);
}

TEST_F(Attempt, IsAliveWhileItRunsAndStopsWhenAsked) {
  start({"sleep"});
  ASSERT_TRUE(
      happens_within(20s, [&] { return stop_attempt(dir_) || liveness() != Liveness::kAlive; }));
  EXPECT_EQ(exit_within(20s).signal, SIGTERM);
  EXPECT_EQ(processes(), 0u);
}

TEST_F(Attempt, OrphansOfTheCommandAreGoneBeforeItCountsAsEnded) {
  start({"leave-orphan"});
  EXPECT_EQ(exit_within(20s).exit_code, 5);
  EXPECT_EQ(processes(), 0u);
}

TEST_F(Attempt, StopReachesProcessesThatIgnoreIt) {
  start({"ignore-sigterm"});
  ASSERT_TRUE(happens_within(20s, [&] { return processes() == 4; }));
  ASSERT_TRUE(stop_attempt(dir_));
  EXPECT_EQ(exit_within(30s).signal, SIGKILL);
  EXPECT_EQ(processes(), 0u);
}

TEST_F(Attempt, StopReachesASupervisorThatSomebodyHasStopped) {
  start({"sleep"});
  ASSERT_TRUE(happens_within(20s, [&] { return processes() == 2 && announced(); }));
  ASSERT_EQ(::kill(supervisor_, SIGSTOP), 0);
  ASSERT_TRUE(stop_attempt(dir_));
  EXPECT_EQ(exit_within(20s).signal, SIGTERM);
}

TEST_F(Attempt, OutlivesItsStarterAndIsFoundAgain) {
  const pid_t starter = ::fork();
  if (starter == 0) {
    start_attempt(command({"sleep"}));
    ::_exit(0);
  }
  ::waitpid(starter, nullptr, 0);
  ASSERT_TRUE(happens_within(20s, [&] { return announced(); }));
  EXPECT_EQ(liveness(), Liveness::kAlive);
  EXPECT_TRUE(stop_attempt(dir_));
  EXPECT_EQ(exit_within(20s).signal, SIGTERM);
}

TEST_F(Attempt, KilledSupervisorTakesItsCommandAlongAndIsSeenToHaveVanished) {
  start({"sleep"});
  ASSERT_TRUE(happens_within(20s, [&] { return processes() == 2; }));
  ASSERT_EQ(::kill(supervisor_, SIGKILL), 0);
  EXPECT_TRUE(happens_within(20s, [&] { return liveness() == Liveness::kVanished; }));
  EXPECT_TRUE(happens_within(20s, [&] { return processes() == 0; }));
}

TEST_F(Attempt, ThatWasNeverStartedHasVanished) {
  EXPECT_EQ(liveness(), Liveness::kVanished);
  fs::create_directory(dir_);
  EXPECT_EQ(liveness(), Liveness::kVanished);
  EXPECT_FALSE(check_attempt(dir_).ran);
  write_supervisor_record(dir_, {::getpid(), 1, 0});
  EXPECT_TRUE(check_attempt(dir_).ran);
}

TEST_F(Attempt, WithDamagedRecordsAndNoSupervisorHasVanished) {
  fs::create_directory(dir_);
  for (const char* damaged : {"{", "[]", R"({"exit_code": "0", "pid": -1})", ""}) {
    put_file(dir_ / "exit.json", damaged);
    put_file(dir_ / "supervisor.json", damaged);
    EXPECT_EQ(liveness(), Liveness::kVanished) << damaged;
    EXPECT_TRUE(check_attempt(dir_).ran) << damaged;
    EXPECT_FALSE(stop_attempt(dir_)) << damaged;
  }
}

TEST_F(Attempt, PidOfAnotherProcessIsNotSignalled) {
  fs::create_directory(dir_);
  const pid_t self = ::getpid();
  write_supervisor_record(dir_, {self, *process_start_time(self) + 1, 0});
  EXPECT_FALSE(stop_attempt(dir_));
}

}  // namespace
}  // namespace dotresize
