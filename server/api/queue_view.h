#pragma once

#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "server/store/resources.h"

namespace dotresize {

/// Launcher's report on an attempt (AttemptStatus).
struct AttemptNote {
  std::string status;
  std::string command;
};

/// Reason that no job starts while an operator has drained the server.
inline constexpr char kDrainedReason[] = "the server is drained";

/// Result of the scheduler's last round.
struct QueueState {
  std::string paused;  ///< why no job starts at all; empty: jobs start
  std::string held;    ///< why the last job could not start on this machine; empty: it could
  Amounts used;
  std::map<std::string, int> launched;         ///< number of jobs, by launcher
  std::map<std::string, AttemptNote> notes;    ///< notes on launched jobs, by job id
  std::map<std::string, std::string> waiting;  ///< why jobs near the head wait, by job id
  std::string head;                            ///< id of the job that resources are kept free for
  std::optional<double> head_start_s;          ///< seconds until that job starts, if known
};

/// Shares the queue's state with other threads. Thread-safe.
class QueueView {
 public:
  void set(QueueState state) {
    const std::lock_guard lock(mutex_);
    state_ = std::move(state);
  }
  std::string paused() const {
    const std::lock_guard lock(mutex_);
    return state_.paused;
  }
  std::string held() const {
    const std::lock_guard lock(mutex_);
    return state_.held;
  }
  Amounts used() const {
    const std::lock_guard lock(mutex_);
    return state_.used;
  }
  std::map<std::string, int> launched() const {
    const std::lock_guard lock(mutex_);
    return state_.launched;
  }
  AttemptNote note(const std::string& id) const {
    const std::lock_guard lock(mutex_);
    const auto found = state_.notes.find(id);
    return found == state_.notes.end() ? AttemptNote{} : found->second;
  }
  /// Returns the seconds until this job starts, if known.
  std::optional<double> start_s(const std::string& id) const {
    const std::lock_guard lock(mutex_);
    return id == state_.head && state_.paused.empty() ? state_.head_start_s : std::nullopt;
  }
  /// Returns the reason that this job waits.
  std::string reason(const std::string& id) const {
    const std::lock_guard lock(mutex_);
    if (!state_.paused.empty()) return state_.paused;
    const auto found = state_.waiting.find(id);
    return found == state_.waiting.end() ? "the jobs before it" : found->second;
  }

 private:
  mutable std::mutex mutex_;
  QueueState state_;
};

}  // namespace dotresize
