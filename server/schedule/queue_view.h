#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "base/process/mutex.h"
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
  int without_launcher = 0;                    ///< jobs near the head whose launcher is not ready
  std::string head;                            ///< id of the job that resources are kept free for
  std::optional<double> head_start_s;          ///< seconds until that job starts, if known
};

/// Shares the queue's state with other threads. Thread-safe.
class QueueView {
 public:
  void set(QueueState state) {
    auto next = std::make_shared<const QueueState>(std::move(state));
    const Lock lock(mutex_);
    state_ = std::move(next);
  }
  std::shared_ptr<const QueueState> state() const {
    const Lock lock(mutex_);
    return state_;
  }

 private:
  mutable Mutex mutex_;
  std::shared_ptr<const QueueState> state_ DOTRESIZE_GUARDED_BY(mutex_) =
      std::make_shared<const QueueState>();
};

}  // namespace dotresize
