#pragma once

#include <sys/types.h>

#include <chrono>
#include <csignal>
#include <cstddef>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/capped_file.h"
#include "base/unique_fd.h"

namespace dotresize {

/// Programs that run side by side, each in a process group of its own, without standard input. None
/// outlives this program. SIGINT, SIGTERM and SIGHUP become one SIGTERM for all of them. For one
/// thread, before any other is started. Everything throws std::system_error.
class ChildPool {
 public:
  /// Of what each program writes its log has `max_log` bytes and the end (CappedFile).
  explicit ChildPool(int64_t max_log = kMaxLogBytes);
  /// Stops those that still run, and waits for them.
  ~ChildPool();
  ChildPool(const ChildPool&) = delete;
  ChildPool& operator=(const ChildPool&) = delete;

  struct Ended {
    size_t number = 0;
    int exit_code = 0;  ///< as of exit_code_of()
  };

  /// `number` stands for it in Ended. What it writes until its end goes to the end of the file
  /// `log`, while somebody is in wait().
  void start(size_t number, const std::vector<std::string>& command,
             const std::filesystem::path& log);
  /// The next one that has ended; nothing if none does so in time. Needs a running one.
  std::optional<Ended> wait(std::chrono::milliseconds at_most);
  size_t running() const { return children_.size(); }
  /// Whether a signal has stopped them.
  bool stopped() const { return stopped_; }

 private:
  struct Child {
    size_t number = 0;
    UniqueFd output;  ///< a pipe that never blocks us; none once it is closed
    std::unique_ptr<CappedFile> log;

    /// Copies what the pipe has: all of it, if nobody writes meanwhile.
    void copy();
  };

  void stop();
  std::optional<Ended> reap();
  /// Waits for a signal or output, and takes it. False if none came.
  bool take_events(std::chrono::milliseconds at_most);
  void take_signals();

  const int64_t max_log_;
  sigset_t previous_ = {};
  UniqueFd signals_;
  std::map<pid_t, Child> children_;  ///< those that run
  bool stopped_ = false;
};

}  // namespace dotresize
