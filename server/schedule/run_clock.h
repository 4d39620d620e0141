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
  std::chrono::milliseconds passed(const std::string& id, std::chrono::milliseconds by_wall,
                                   Clock::time_point now = Clock::now()) {
    const Clock::time_point begun = now - std::max(by_wall, std::chrono::milliseconds(0));
    return std::chrono::duration_cast<std::chrono::milliseconds>(
        now - begun_.try_emplace(id, begun).first->second);
  }
  /// Drops a job that has ended.
  void forget(const std::string& id) { begun_.erase(id); }

 private:
  std::map<std::string, Clock::time_point> begun_;
};

}  // namespace dotresize
