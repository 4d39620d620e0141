#include "base/process/child.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <csignal>
#include <optional>
#include <system_error>

namespace dotresize {
namespace {

/// Waits for the end of a child that ends by itself.
int end_of(Child& child) {
  const UniqueFd process(static_cast<int>(::syscall(SYS_pidfd_open, child.pid(), 0)));
  pollfd ended = {process.get(), POLLIN, 0};
  EXPECT_EQ(::poll(&ended, 1, 20'000), 1);
  return child.exit_code().value_or(-1);
}

TEST(Child, HasWhatItsStartSays) {
  Child child({.command = {"sh", "-c", "[ $(umask) = 0027 ] && [ $PWD = / ] && [ $NAME = value ]"},
               .environment = {"NAME=value", "PATH=/usr/bin:/bin"},
               .directory = "/",
               .umask = 0027});
  EXPECT_EQ(end_of(child), 0);
}

TEST(Child, HasNoIgnoredSignals) {
  const auto before = ::signal(SIGPIPE, SIG_IGN);
  Child child({.command = {"sh", "-c", "kill -PIPE $$"}});
  ::signal(SIGPIPE, before);
  EXPECT_EQ(end_of(child), 128 + SIGPIPE);
}

TEST(Child, EverythingThatPreventsItsStartIsSaid) {
  const auto says = [](const std::string& what) {
    return testing::ThrowsMessage<std::system_error>("cannot start sh: " + what);
  };
  EXPECT_THAT([] { Child({.command = {"sh"}, .program = "/etc/passwd"}); },
              says("Permission denied"));
  EXPECT_THAT([] { Child({.command = {"sh"}, .directory = "/no/such/directory"}); },
              says("No such file or directory"));
  EXPECT_THAT(
      [] {
        Child({.command = {"sh"}, .descriptors = {{999'999, 3}}});
      },
      says("Bad file descriptor"));
}

TEST(Child, IsKilledWithItsGroupUnlessItOutlivesUs) {
  Pipe held = make_pipe();  // closed once nobody of the group is left
  std::optional<Child> child(std::in_place,
                             ChildStart{.command = {"sh", "-c", "sleep 600 & wait"},
                                        .descriptors = {{held.write_end.get(), STDOUT_FILENO}},
                                        .leads_group = true});
  held.write_end = UniqueFd();
  child.reset();
  pollfd closed = {held.read_end.get(), POLLIN, 0};
  EXPECT_EQ(::poll(&closed, 1, 20'000), 1);
  EXPECT_EQ(closed.revents, POLLHUP);

  Child other({.command = {"sleep", "600"}, .outlives_us = true});
  const pid_t pid = other.pid();
  { const Child moved = std::move(other); }
  EXPECT_EQ(::kill(pid, SIGKILL), 0);
}

}  // namespace
}  // namespace dotresize
