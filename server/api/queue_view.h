#pragma once

#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "server/store/resources.h"

namespace dotresize {

/// What a launcher says of an attempt (AttemptStatus).
struct AttemptNote {
  std::string status;
  std::string command;
};

/// Why nothing is started if an operator has said so.
inline constexpr char kDrainedReason[] = "the server is drained";

/// What the scheduler has found in its last round.
struct QueueState {
  std::string paused;  ///< why it starts no job at all; empty: it does
  std::string held;    ///< why the last job could not be started here; empty: it could
  Amounts used;
  std::map<v1::Resources::Launcher, int> launched;  ///< jobs
  std::map<std::string, AttemptNote> notes;         ///< of launched jobs, by id
  std::map<std::string, std::string> waiting;       ///< what jobs near the head wait for, by id
  std::string head;                                 ///< id of the job that room is kept for
  std::optional<double> head_start_s;               ///< until its start, if that can be told
};

/// Tells others of it. Safe to use from any thread.
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
  std::map<v1::Resources::Launcher, int> launched() const {
    const std::lock_guard lock(mutex_);
    return state_.launched;
  }
  AttemptNote note(const std::string& id) const {
    const std::lock_guard lock(mutex_);
    const auto found = state_.notes.find(id);
    return found == state_.notes.end() ? AttemptNote{} : found->second;
  }
  /// Seconds until this job's start.
  std::optional<double> start_s(const std::string& id) const {
    const std::lock_guard lock(mutex_);
    return id == state_.head && state_.paused.empty() ? state_.head_start_s : std::nullopt;
  }
  /// What this job waits for.
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
