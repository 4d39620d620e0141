#pragma once

#include <chrono>
#include <map>
#include <string>

namespace dotresize {

/// How long jobs have been under way, by a clock that nobody sets. Of a job that an earlier server
/// has started the wall clock says how long it was then. Used by one thread.
class RunClock {
 public:
  using Clock = std::chrono::steady_clock;

  /// Since the job's start, which lies `by_wall` back for the wall clock now.
  std::chrono::seconds passed(const std::string& id, std::chrono::seconds by_wall,
                              Clock::time_point now = Clock::now());
  /// It has ended.
  void forget(const std::string& id) { begun_.erase(id); }

 private:
  std::map<std::string, Clock::time_point> begun_;
};

/// Notices that somebody has set the wall clock. Used by one thread.
class ClockWatch {
 public:
  using Wall = std::chrono::system_clock;
  using Steady = std::chrono::steady_clock;

  explicit ClockWatch(Wall::time_point wall = Wall::now(),
                      Steady::time_point steady = Steady::now())
      : wall_(wall), steady_(steady) {}
  /// By how much it was set since the last call; 0 for less than two seconds, which are the
  /// clock's own corrections.
  std::chrono::milliseconds jump(Wall::time_point wall = Wall::now(),
                                 Steady::time_point steady = Steady::now());

 private:
  Wall::time_point wall_;
  Steady::time_point steady_;
};

}  // namespace dotresize
