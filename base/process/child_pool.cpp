#include "base/process/child_pool.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <system_error>
#include <utility>

#include "base/files/confinement.h"

namespace dotresize {

void ChildPool::Child::copy() {
  constexpr int kMostReads = 32;  // a child that writes without end must not starve the others
  std::array<char, 65536> buffer;
  for (int i = 0; i < kMostReads && output; ++i) {
    const ssize_t got = ::read(output.get(), buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EAGAIN) return;
    if (got <= 0) {
      output = UniqueFd();
    } else {
      log->add({buffer.data(), static_cast<size_t>(got)});
    }
  }
}

ChildPool::~ChildPool() {
  stop();
  while (running() > 0) wait(std::chrono::seconds(1));
}

void ChildPool::start(size_t number, const std::vector<std::string>& command,
                      const std::filesystem::path& log,
                      std::optional<std::chrono::seconds> idle_limit) {
  constexpr int kAppend = O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW;
  UniqueFd file = Confinement::of_process().open(log, kAppend, 0644);
  if (!file) throw std::system_error(errno, std::generic_category(), shown_path(log));
  Pipe pipe = make_pipe();
  if (::fcntl(pipe.read_end.get(), F_SETFL, O_NONBLOCK) != 0) {
    throw std::system_error(errno, std::generic_category(), "pipe");
  }
  const pid_t pid =
      start_in_group(command, signals_.previous, pipe.write_end.get(), pipe.write_end.get());
  children_.emplace(pid, Child{number, std::move(pipe.read_end),
                               std::make_unique<CappedFile>(std::move(file), max_log_),
                               IdleTime(pid), idle_limit});
}

std::optional<ChildPool::Ended> ChildPool::wait(std::chrono::milliseconds at_most) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point end = Clock::now() + at_most;
  for (;;) {
    for (auto& [pid, child] : children_) {
      int status = 0;
      if (::waitpid(pid, &status, WNOHANG) != pid) {
        if (child.hung || !child.idle_limit || child.idle.passed() < *child.idle_limit) continue;
        child.hung = true;
        ::kill(-pid, SIGKILL);
        continue;
      }
      child.copy();  // not until the end of the pipe: a grandchild may keep it open
      const Ended ended{child.number, exit_code_of(status), child.hung};
      children_.erase(pid);
      return ended;
    }
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - Clock::now());
    if (left.count() <= 0) return std::nullopt;
    std::vector<pollfd> polled = {{signals_.fd.get(), POLLIN, 0}};
    for (const auto& [pid, child] : children_) polled.push_back({child.output.get(), POLLIN, 0});
    constexpr std::chrono::milliseconds kLook{200};  // at idle programs
    const auto until = static_cast<int>(std::min(left, kLook).count());
    if (::poll(polled.data(), polled.size(), until) <= 0) continue;
    signalfd_siginfo signal = {};
    while (polled[0].revents != 0 &&
           ::read(signals_.fd.get(), &signal, sizeof signal) == sizeof signal) {
      if (signal.ssi_signo == SIGCHLD || stopped_) continue;
      stopped_ = true;
      stop();
    }
    for (auto& [pid, child] : children_) child.copy();
  }
}

void ChildPool::stop() {
  for (const auto& [pid, child] : children_) ::kill(pid, SIGTERM);
}

}  // namespace dotresize
