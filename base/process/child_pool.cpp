#include "base/process/child_pool.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <system_error>
#include <utility>

#include "base/files/confinement.h"

namespace dotresize {

void ChildPool::Running::copy() {
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
  try {
    Child child({.command = command,
                 .descriptors = {{pipe.write_end.get(), STDOUT_FILENO},
                                 {pipe.write_end.get(), STDERR_FILENO}},
                 .leads_group = true,
                 .signal_at_our_end = SIGTERM});
    const IdleTime idle(child.pid());
    running_.push_back({std::move(child), number, std::move(pipe.read_end),
                        std::make_unique<CappedFile>(std::move(file), max_log_), idle, idle_limit});
  } catch (const std::system_error&) {
    not_started_.push_back({number, kExitCannotExecute, /*hung=*/false});
  }
}

std::optional<ChildPool::Ended> ChildPool::wait(std::chrono::milliseconds at_most) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point end = Clock::now() + at_most;
  for (;;) {
    if (!not_started_.empty()) {
      const Ended ended = not_started_.back();
      not_started_.pop_back();
      return ended;
    }
    for (auto running = running_.begin(); running != running_.end(); ++running) {
      const std::optional<int> exit_code = running->child.exit_code();
      if (exit_code) {
        running->copy();  // not until the end of the pipe: a grandchild may keep it open
        const Ended ended{running->number, *exit_code, running->hung};
        running_.erase(running);
        return ended;
      }
      if (running->hung || !running->idle_limit || running->idle.passed() < *running->idle_limit) {
        continue;
      }
      running->hung = true;
      running->child.kill();
    }
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - Clock::now());
    if (left.count() <= 0) return std::nullopt;
    std::vector<pollfd> polled = {{signals_.fd.get(), POLLIN, 0}};
    for (const Running& running : running_) polled.push_back({running.output.get(), POLLIN, 0});
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
    for (Running& running : running_) running.copy();
  }
}

void ChildPool::stop() {
  for (const Running& running : running_) running.child.signal(SIGTERM);
}

}  // namespace dotresize
