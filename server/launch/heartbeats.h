#pragma once

#include <chrono>
#include <map>
#include <string>

#include "base/process/mutex.h"
#include "dotresize/v1/jobs.pb.h"

namespace dotresize {

/// Time of each running job's last heartbeat, and the progress worth storing. Kept in memory: after
/// a server restart every job gets its whole timeout again. Thread-safe.
class Heartbeats {
 public:
  using Clock = std::chrono::steady_clock;

  /// Starts tracking a job: its attempt begins, or is found again after a server restart.
  void begin(const std::string& id);
  /// Restarts the silence of every tracked job at zero.
  void begin_all();
  void forget(const std::string& id);

  /// Records a heartbeat; ignored for a job that is not tracked.
  void beat(const std::string& id);
  /// True if `progress` should be stored: it differs from the last stored one, and has a new phase
  /// or comes at least a second later. Remembers it as stored.
  bool is_worth_storing(const std::string& id, const v1::Progress& progress);

  /// Time since the last heartbeat or `begin`; 0 for a job that is not tracked.
  Clock::duration silence(const std::string& id) const;
  /// Longest silence of all tracked jobs; 0 if there are none.
  Clock::duration longest_silence() const;

 private:
  struct Entry {
    Clock::time_point heard;
    Clock::time_point stored;
    v1::Progress progress;  ///< last stored progress
  };

  mutable Mutex mutex_;
  std::map<std::string, Entry> entries_ DOTRESIZE_GUARDED_BY(mutex_);
};

}  // namespace dotresize
