#pragma once

#include <algorithm>
#include <chrono>
#include <map>
#include <string>

namespace dotresize {

/// Running times of jobs by the steady clock. The wall clock counts only at the first call for a
/// job: it tells how long a job of an earlier server has run. Not thread-safe.
class RunClock {
 public:
  using Clock = std::chrono::steady_clock;

  /// Time since the job's start. The first call for a job takes `by_wall`, the time since its start
  /// by the wall clock; later calls add steady time to it.
  std::chrono::seconds passed(const std::string& id, std::chrono::seconds by_wall,
                              Clock::time_point now = Clock::now()) {
    const Clock::time_point begun = now - std::max(by_wall, std::chrono::seconds(0));
    return std::chrono::duration_cast<std::chrono::seconds>(
        now - begun_.try_emplace(id, begun).first->second);
  }
  /// Drops a job that has ended.
  void forget(const std::string& id) { begun_.erase(id); }

 private:
  std::map<std::string, Clock::time_point> begun_;
};

/// Detects changes of the wall clock. Not thread-safe.
struct ClockWatch {
  using Wall = std::chrono::system_clock;
  using Steady = std::chrono::steady_clock;

  Wall::time_point last_wall = Wall::now();  ///< as of the last call
  Steady::time_point last_steady = Steady::now();

  /// Returns by how much the wall clock was set since the last call. Less than two seconds counts
  /// as 0: the clock's own corrections.
  std::chrono::milliseconds jump(Wall::time_point wall = Wall::now(),
                                 Steady::time_point steady = Steady::now()) {
    using Milliseconds = std::chrono::milliseconds;
    const auto jump =
        std::chrono::duration_cast<Milliseconds>((wall - last_wall) - (steady - last_steady));
    last_wall = wall;
    last_steady = steady;
    return std::chrono::abs(jump) < std::chrono::seconds(2) ? Milliseconds(0) : jump;
  }
};

}  // namespace dotresize
