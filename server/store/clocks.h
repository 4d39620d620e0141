#pragma once

#include <google/protobuf/timestamp.pb.h>
#include <google/protobuf/util/time_util.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <map>
#include <string>

namespace dotresize {

/// Clock by which the job table's waits end: another attempt, a notification, the deletion of an
/// ended job. It begins with the wall clock's time and goes on with the steady clock, so that
/// nothing comes due when the wall clock is set. follow() then moves it, once the stored times are
/// moved by as much. Thread-safe.
class TableClock {
 public:
  using Wall = std::chrono::system_clock;
  using Steady = std::chrono::steady_clock;
  using Milliseconds = std::chrono::milliseconds;

  explicit TableClock(Wall::time_point wall = Wall::now(),
                      Steady::time_point steady = Steady::now())
      : offset_(since_epoch(wall) - since_epoch(steady)) {}

  /// Unix time in ms.
  int64_t now_ms(Steady::time_point steady = Steady::now()) const {
    return (since_epoch(steady) + offset_.load()).count();
  }
  google::protobuf::Timestamp now() const {
    return google::protobuf::util::TimeUtil::MillisecondsToTimestamp(now_ms());
  }
  /// Returns by how much the wall clock is ahead. Less than two seconds counts as 0: the clock's
  /// own corrections.
  Milliseconds jump(Wall::time_point wall = Wall::now(),
                    Steady::time_point steady = Steady::now()) const {
    const Milliseconds ahead = since_epoch(wall) - Milliseconds(now_ms(steady));
    return std::chrono::abs(ahead) < std::chrono::seconds(2) ? Milliseconds(0) : ahead;
  }
  void follow(Milliseconds jump) { offset_ = offset_.load() + jump; }

 private:
  template <class Point>
  static Milliseconds since_epoch(Point time) {
    return std::chrono::duration_cast<Milliseconds>(time.time_since_epoch());
  }

  std::atomic<Milliseconds> offset_;  ///< Unix time minus the steady clock's
};

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
