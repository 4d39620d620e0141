#pragma once

#include <atomic>
#include <chrono>
#include <map>
#include <string>

namespace dotresize {

/// Holds the queue for a while after this machine could not start a job. Each hold is twice as long
/// as the last one, up to a limit, until an attempt launched since then is seen to run. Not
/// thread-safe except is_on().
class QueueHold {
 public:
  using Clock = std::chrono::steady_clock;

  /// Reports that an attempt could not be started. Logs and returns for how long jobs now wait; a
  /// hold that is already on is not extended.
  std::chrono::seconds begin(const std::string& reason, Clock::time_point now = Clock::now());
  /// Reports that an attempt of this job is launched.
  void launch(const std::string& id, Clock::time_point now = Clock::now());
  /// Reports the state of a launched job. The holds are over if it runs (or has run), or if it has
  /// not failed within the longest hold.
  void see(const std::string& id, bool runs, Clock::time_point now = Clock::now());
  /// Reports that the job has ended or is queued again.
  void forget(const std::string& id) { launched_.erase(id); }
  /// Reports that no job waits to be started.
  void see_empty_queue(Clock::time_point now = Clock::now());

  /// Reason why no job may start now; empty: jobs may start.
  std::string reason(Clock::time_point now = Clock::now()) const;
  /// Reason why the last start of a job failed; empty if it did not fail, as far as is known.
  std::string last_reason() const { return is_on() ? reason_ : ""; }
  /// True if the last start of a job failed, as far as is known. Thread-safe.
  bool is_on() const { return length_.load().count() > 0; }

 private:
  void end();

  std::atomic<std::chrono::seconds> length_{std::chrono::seconds(0)};  ///< last hold; 0: over
  Clock::time_point until_;
  std::string reason_;
  std::map<std::string, Clock::time_point> launched_;  ///< launch times since the last hold
};

}  // namespace dotresize
