#include "base/child_pool.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/signalfd.h>
#include <sys/wait.h>

#include <cerrno>
#include <system_error>

#include "base/child_process.h"

namespace dotresize {

ChildPool::ChildPool() {
  const sigset_t watched = child_signals();
  sigprocmask(SIG_BLOCK, &watched, &previous_);
  signals_ = UniqueFd(::signalfd(-1, &watched, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!signals_) throw std::system_error(errno, std::generic_category(), "signalfd");
}

ChildPool::~ChildPool() {
  stop();
  for (const auto& [pid, number] : numbers_) wait_for_child(pid);
  sigprocmask(SIG_SETMASK, &previous_, nullptr);
}

void ChildPool::start(size_t number, const std::vector<std::string>& command,
                      const std::filesystem::path& log) {
  const UniqueFd file(::open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
  if (!file) throw std::system_error(errno, std::generic_category(), log.string());
  numbers_[start_in_group(command, previous_, file.get(), file.get())] = number;
}

std::optional<ChildPool::Ended> ChildPool::wait(std::chrono::milliseconds at_most) {
  if (const auto ended = reap()) return ended;
  pollfd polled = {signals_.get(), POLLIN, 0};
  if (::poll(&polled, 1, static_cast<int>(at_most.count())) <= 0) return std::nullopt;
  signalfd_siginfo signal = {};
  while (::read(signals_.get(), &signal, sizeof signal) == sizeof signal) {
    if (signal.ssi_signo == SIGCHLD || stopped_) continue;
    stopped_ = true;
    stop();
  }
  return reap();
}

void ChildPool::stop() {
  for (const auto& [pid, number] : numbers_) ::kill(pid, SIGTERM);
}

std::optional<ChildPool::Ended> ChildPool::reap() {
  for (const auto& [pid, number] : numbers_) {
    int status = 0;
    if (::waitpid(pid, &status, WNOHANG) != pid) continue;
    const Ended ended{number, exit_code_of(status)};
    numbers_.erase(pid);
    return ended;
  }
  return std::nullopt;
}

}  // namespace dotresize
