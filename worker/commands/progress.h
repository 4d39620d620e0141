#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

namespace dotresize {

/// How far a job is.
struct ProgressState {
  std::string phase;
  int64_t junctions_done = 0;
  int64_t junctions_total = 0;
  double tokens_per_second = 0.0;  ///< of the current phase, 0 if it moves no tokens
  double eta_s = -1.0;             ///< negative while unknown
  double fraction = 0.0;           ///< of the whole job, [0, 1]
};

/// Work that is counted, and how long all of it is expected to take: seconds, or any other unit
/// that all phases have in common.
struct CountedWork {
  int64_t total = 0;  ///< 0: none
  double seconds = 0.0;
};

/// A part of a job with the work that it counts.
struct ProgressPhase {
  std::string name;
  CountedWork tokens = {};       ///< that pass through
  CountedWork junctions = {};    ///< that are solved
  CountedWork sublayers = {};    ///< that this rank writes
  double uncounted_seconds = 0;  ///< of which nothing is seen before the next phase

  double seconds() const {
    return tokens.seconds + junctions.seconds + sublayers.seconds + uncounted_seconds;
  }
};

/// Turns what happens into ProgressState. `phases` in order. Thread-safe; `changed` is called on
/// each change, from the thread that made it.
class Progress {
 public:
  using Listener = std::function<void(const ProgressState&)>;
  explicit Progress(Listener changed) : changed_(std::move(changed)) {}

  /// May be called again when more is known; the current phase keeps its place in the order.
  void plan(std::vector<ProgressPhase> phases);
  /// Starts a planned phase.
  void enter(const std::string& phase);
  void tokens_seen(int64_t tokens);
  void junctions_solved(int64_t junctions);
  /// An interrupted run has solved them: they tell nothing of how fast this one is.
  void junctions_found(int64_t junctions);
  void sublayers_written(int64_t sublayers);

  ProgressState state() const;
  /// Phase name; empty before the first.
  std::string phase() const { return state().phase; }

 private:
  using Clock = std::chrono::steady_clock;
  double done_seconds() const;
  /// Runs `step` under the lock, then tells the listener.
  void change(const std::function<void()>& step);

  Listener changed_;
  mutable std::mutex mutex_;
  std::vector<ProgressPhase> phases_;
  size_t current_ = 0;
  bool started_ = false;
  int64_t tokens_ = 0;     // of the current phase
  int64_t junctions_ = 0;  // likewise
  int64_t sublayers_ = 0;  // likewise
  double found_ = 0.0;     // expected seconds of what did not have to be done
  Clock::time_point job_start_ = Clock::now();
  Clock::time_point phase_start_ = job_start_;
};

/// Lets a report of progress pass when the phase changes, then at most one in `interval`.
/// Thread-safe.
class ProgressThrottle {
 public:
  using Clock = std::chrono::steady_clock;
  explicit ProgressThrottle(Clock::duration interval) : interval_(interval) {}

  bool passes(const std::string& phase);

 private:
  const Clock::duration interval_;
  std::mutex mutex_;
  std::string phase_;
  Clock::time_point last_;
};

/// Progress as plain lines on stderr: one when the phase changes, then at most one every five
/// seconds. Thread-safe.
class ProgressLines {
 public:
  void show(const ProgressState& state);

 private:
  using Clock = std::chrono::steady_clock;
  ProgressThrottle throttle_{std::chrono::seconds(5)};
  Clock::time_point start_ = Clock::now();
};

}  // namespace dotresize
