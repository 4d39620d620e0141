#pragma once

#include <chrono>
#include <cstddef>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/files/capped_file.h"
#include "base/files/unique_fd.h"
#include "base/process/child.h"
#include "base/process/child_process.h"

namespace dotresize {

/// Runs programs side by side, each in its own process group, without standard input. No program
/// outlives this one. SIGINT, SIGTERM and SIGHUP become one SIGTERM for all of them. Used by one
/// thread, before any other thread starts. Every function throws std::system_error.
class ChildPool {
 public:
  /// Each program's log keeps `max_log` bytes of its output, and the end (CappedFile).
  explicit ChildPool(int64_t max_log = kMaxLogBytes) : max_log_(max_log) {}
  /// Stops the programs that still run, and waits for them.
  ~ChildPool();
  ChildPool(const ChildPool&) = delete;
  ChildPool& operator=(const ChildPool&) = delete;

  struct Ended {
    size_t number = 0;
    int exit_code = 0;  ///< see exit_code_of()
    bool hung = false;  ///< killed, because it had used no processor for too long
  };

  /// Starts a program; `number` identifies it in Ended. Its output is appended to the file `log`
  /// during calls of wait(), which kills its process group once it has used no processor for
  /// `idle_limit` (IdleTime).
  void start(size_t number, const std::vector<std::string>& command,
             const std::filesystem::path& log, std::optional<std::chrono::seconds> idle_limit = {});
  /// Returns the next program that has ended, or nothing if none ends in time. Needs a running one.
  std::optional<Ended> wait(std::chrono::milliseconds at_most);
  size_t running() const { return running_.size() + not_started_.size(); }
  /// True if a signal has stopped the programs.
  bool stopped() const { return stopped_; }

 private:
  struct Running {
    Child child;
    size_t number = 0;
    UniqueFd output;  ///< non-blocking pipe; empty once it is closed
    std::unique_ptr<CappedFile> log;
    IdleTime idle;
    std::optional<std::chrono::seconds> idle_limit;
    bool hung = false;

    /// Copies the pipe's content to the log: all of it unless the program keeps writing.
    void copy();
  };

  void stop();

  const int64_t max_log_;
  ChildSignals signals_;
  std::vector<Running> running_;
  std::vector<Ended> not_started_;  ///< for wait()
  bool stopped_ = false;
};

}  // namespace dotresize
