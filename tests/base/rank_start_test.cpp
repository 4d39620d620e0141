#include "base/process/rank_start.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <system_error>

#include "base/errors.h"
#include "base/process/child_process.h"
#include "tests/temporary_directory.h"

namespace dotresize {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

/// Limits open files during its lifetime.
class LimitedFiles {
 public:
  explicit LimitedFiles(rlim_t soft) {
    ::getrlimit(RLIMIT_NOFILE, &before_);
    const rlimit limit = {soft, before_.rlim_max};
    ::setrlimit(RLIMIT_NOFILE, &limit);
  }
  ~LimitedFiles() { ::setrlimit(RLIMIT_NOFILE, &before_); }
  LimitedFiles(const LimitedFiles&) = delete;
  LimitedFiles& operator=(const LimitedFiles&) = delete;

 private:
  rlimit before_ = {};
};

TEST(RankStart, RaisesTheLimitOfOpenFilesAsFarAsItMay) {
  const LimitedFiles few(32);
  require_rank_start(8);
  rlimit limit = {};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  EXPECT_GE(limit.rlim_cur, 64U) << "what mpirun needs for 8 ranks";
}

/// Lowers the hard limit of open files, which cannot be raised again, and ends the process with the
/// error of two ranks.
[[noreturn]] void ask_with_32_files() {
  const rlimit limit = {32, 32};
  ::setrlimit(RLIMIT_NOFILE, &limit);
  require_rank_start(1);
  try {
    require_rank_start(2);
  } catch (const ProgramMissing& error) {
    std::fprintf(stderr, "%s\n", error.what());
    std::_Exit(3);
  }
  std::_Exit(0);
}

TEST(RankStart, RefusesALimitThatMpirunHangsAt) {
  EXPECT_EXIT(ask_with_32_files(), testing::ExitedWithCode(3),
              "open files: 32 are too few .* 2 ranks.*ulimit -n");
}

TEST(RankStart, SaysWhichSharedMemoryIsMissing) {
  EXPECT_THAT(
      [] { require_rank_start(2, "/no/such/place"); },
      ThrowsMessage<ProgramMissing>(AllOf(HasSubstr("/no/such/place: "), HasSubstr("--shm-size"))));
  EXPECT_NO_THROW(require_rank_start(1, "/no/such/place"));
}

size_t entries_in(const TemporaryDirectory& dir) {
  std::error_code error;
  return entries_of(dir.path(), error).size();
}

TEST(SharedMemoryFolder, IsThereForItsLifetimeWithWhatRanksLeave) {
  const TemporaryDirectory memory;
  {
    const SharedMemoryFolder folder(2, memory.path());
    EXPECT_EQ(folder.path().parent_path(), memory.path());
    put_file(folder.path() / "segment", "left by a killed rank");
    fs::create_directories(folder.path() / "session" / "0");
  }
  EXPECT_EQ(entries_in(memory), 0U);
}

TEST(SharedMemoryFolder, IsNotNeededForOneRankNorWithoutSharedMemory) {
  const TemporaryDirectory memory;
  EXPECT_TRUE(SharedMemoryFolder(1, memory.path()).path().empty());
  EXPECT_TRUE(SharedMemoryFolder(2, memory / "missing").path().empty());
}

TEST(SharedMemoryFolder, OneOfAKilledProcessIsRemovedOnceItsChildrenHaveEnded) {
  const TemporaryDirectory memory;
  const fs::path foreign = memory.write("vader_segment.host.0.1", "of somebody else");
  Pipe pid_of_sleep = make_pipe();
  const pid_t owner = ::fork();
  if (owner == 0) {
    const SharedMemoryFolder folder(2, memory.path());
    put_file(folder.path() / "segment", "left");
    const Child child({.command = {"sleep", "600"}, .outlives_us = true});
    const pid_t sleep = child.pid();
    [[maybe_unused]] const auto written =
        ::write(pid_of_sleep.write_end.get(), &sleep, sizeof(sleep));
    ::kill(::getpid(), SIGKILL);
  }
  pid_t sleep = 0;
  ASSERT_EQ(::read(pid_of_sleep.read_end.get(), &sleep, sizeof(sleep)), sizeof(sleep));
  ::waitpid(owner, nullptr, 0);
  { const SharedMemoryFolder next(2, memory.path()); }
  EXPECT_EQ(entries_in(memory), 2U) << "its child lives";
  const UniqueFd process(static_cast<int>(::syscall(SYS_pidfd_open, sleep, 0)));
  ::kill(sleep, SIGKILL);
  pollfd ended = {process.get(), POLLIN, 0};
  ASSERT_EQ(::poll(&ended, 1, 10'000), 1);
  { const SharedMemoryFolder next(2, memory.path()); }
  EXPECT_EQ(entries_in(memory), 1U);
  EXPECT_TRUE(fs::exists(foreign));
}

}  // namespace
}  // namespace dotresize
