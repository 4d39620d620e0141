#include "base/child_process.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <system_error>

namespace dotresize {
namespace {

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

}  // namespace
}  // namespace dotresize
