#pragma once

#include <atomic>
#include <chrono>
#include <map>
#include <string>

namespace dotresize {

/// Keeps jobs from being started for a while after this machine could not start one: for longer
/// each time, until an attempt that was launched since then is seen to run. Used by one thread but
/// for is_on().
class QueueHold {
 public:
  using Clock = std::chrono::steady_clock;

  /// An attempt could not be started. For how long nothing is started now: while it is on, it stays
  /// as long as it is.
  std::chrono::seconds begin(const std::string& reason, Clock::time_point now = Clock::now());
  /// An attempt of this job is launched.
  void launch(const std::string& id, Clock::time_point now = Clock::now());
  /// It was started if it runs, or has run, or has not failed for as long as the longest hold.
  void see(const std::string& id, bool runs, Clock::time_point now = Clock::now());
  /// It has ended, or waits in the queue again.
  void forget(const std::string& id) { launched_.erase(id); }
  /// No job waits to be started.
  void see_empty_queue(Clock::time_point now = Clock::now());

  /// Why nothing is started now; empty if jobs may be.
  std::string reason(Clock::time_point now = Clock::now()) const;
  /// Why the last attempt to start a job has failed; empty if it has not, as far as is known.
  std::string last_reason() const { return is_on() ? reason_ : ""; }
  /// Whether the last attempt to start a job has failed, as far as is known. From any thread.
  bool is_on() const { return length_.load().count() > 0; }

 private:
  void end();

  std::atomic<std::chrono::seconds> length_{std::chrono::seconds(0)};  ///< of the last one; 0: over
  Clock::time_point until_;
  std::string reason_;
  std::map<std::string, Clock::time_point> launched_;  ///< jobs since the last one, and when
};

}  // namespace dotresize
