#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include "dotresize/v1/jobs.pb.h"

namespace dotresize {

/// Counted work and its expected time, in seconds or any other unit that all phases share.
struct CountedWork {
  int64_t total = 0;  ///< 0: no such work
  double seconds = 0.0;
};

/// Work that is done.
struct WorkDone {
  int64_t tokens = 0;     ///< tokens that have passed through
  int64_t junctions = 0;  ///< solved junctions
  int64_t cuts = 0;       ///< operations of cuts of this rank
  int64_t sublayers = 0;  ///< sublayers that this rank has written
};

/// A phase of a job with the work that it counts.
struct ProgressPhase {
  std::string name;
  CountedWork tokens = {};       ///< tokens that pass through
  CountedWork junctions = {};    ///< junctions to solve
  CountedWork cuts = {};         ///< operations of cuts of this rank
  CountedWork sublayers = {};    ///< sublayers that this rank writes
  double uncounted_seconds = 0;  ///< work that shows no progress before the next phase

  double seconds() const {
    return tokens.seconds + junctions.seconds + cuts.seconds + sublayers.seconds +
           uncounted_seconds;
  }
};

/// Turns events into the progress of a job. `phases` are in order. Thread-safe. `changed` is called
/// on each change, from the thread that made it.
class Progress {
 public:
  using Listener = std::function<void(const v1::Progress&)>;
  explicit Progress(Listener changed) : changed_(std::move(changed)) {}

  /// Sets the phases. A later call with more knowledge keeps the place of the current phase.
  void plan(std::vector<ProgressPhase> phases);
  /// Starts a planned phase.
  void enter(const std::string& phase);
  /// Counts work of the current phase. `found`: junctions that an interrupted run has solved, which
  /// do not affect the speed estimate.
  void add(const WorkDone& more, bool found = false);

  /// Progress as the API shows it; without a phase before the first.
  v1::Progress state() const;

 private:
  using Clock = std::chrono::steady_clock;
  /// Runs `step` under the lock, then tells the listener.
  void change(const std::function<void()>& step);

  const Listener changed_;
  mutable std::mutex mutex_;  // guards all below
  std::vector<ProgressPhase> phases_;
  size_t current_ = 0;
  bool started_ = false;
  WorkDone done_;       // current phase
  double found_ = 0.0;  // expected seconds of work that was skipped
  Clock::time_point job_start_ = Clock::now();
  Clock::time_point phase_start_ = job_start_;
};

/// Prints progress on stderr: once when the phase changes, then at most once in an interval.
/// Thread-safe.
class ProgressPrinter {
 public:
  /// Prints plain lines, one in five seconds. With `records` (`--progress json`) prints for the
  /// program that started this one, ten times a second: a JSON text sequence (RFC 7464: each record
  /// begins with the control character RS and ends with a newline) with the keys of the message
  /// Progress of proto/dotresize/v1/jobs.proto.
  explicit ProgressPrinter(bool records);

  void show(const v1::Progress& state);

 private:
  using Clock = std::chrono::steady_clock;
  const bool records_;
  const Clock::duration interval_;
  const Clock::time_point start_ = Clock::now();
  std::mutex mutex_;  // guards what was printed last
  std::string phase_;
  Clock::time_point last_;
};

}  // namespace dotresize
