#pragma once

#include <sys/types.h>

#include <chrono>
#include <csignal>
#include <cstddef>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/unique_fd.h"

namespace dotresize {

/// Programs that run side by side, each in a process group of its own, without standard input. None
/// outlives this program. SIGINT, SIGTERM and SIGHUP become one SIGTERM for all of them. For one
/// thread, before any other is started. Everything throws std::system_error.
class ChildPool {
 public:
  ChildPool();
  /// Stops those that still run, and waits for them.
  ~ChildPool();
  ChildPool(const ChildPool&) = delete;
  ChildPool& operator=(const ChildPool&) = delete;

  struct Ended {
    size_t number = 0;
    int exit_code = 0;  ///< as of exit_code_of()
  };

  /// `number` stands for it in Ended. What it writes goes to the end of the file `log`.
  void start(size_t number, const std::vector<std::string>& command,
             const std::filesystem::path& log);
  /// The next one that has ended; nothing if none does so in time. Needs a running one.
  std::optional<Ended> wait(std::chrono::milliseconds at_most);
  size_t running() const { return numbers_.size(); }
  /// Whether a signal has stopped them.
  bool stopped() const { return stopped_; }

 private:
  void stop();
  std::optional<Ended> reap();

  sigset_t previous_ = {};
  UniqueFd signals_;
  std::map<pid_t, size_t> numbers_;  ///< of those that run
  bool stopped_ = false;
};

}  // namespace dotresize
