#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace dotresize {

/// Wall time by phase of one rank. Phases nest, and time counts for the innermost one only, so the
/// phases add up to the time measured. Not thread-safe.
class PhaseClock {
 public:
  /// One run of a phase, inner phases included. Seconds since set_origin.
  struct Span {
    std::string phase;
    std::string detail;  ///< what it is about: the junction's name; or empty
    double begin_s = 0.0;
    double end_s = 0.0;
  };

  /// `keeps_spans`: for a timeline. They take memory, about a hundred bytes each. `synchronize`:
  /// called at the end of each phase, before its time is taken: waits for work that still runs, as
  /// on a GPU. Throws nothing.
  explicit PhaseClock(bool keeps_spans = false, std::function<void()> synchronize = {})
      : keeps_spans_(keeps_spans), synchronize_(std::move(synchronize)) {
    set_origin();
  }

  /// Time counts from now on, and what was before is forgotten. If ranks call it right after a
  /// barrier, their timelines agree. Outside all phases.
  void set_origin() {
    origin_ = Clock::now();
    seconds_.clear();
    spans_.clear();
  }

  /// Its lifetime belongs to the phase.
  class Scope {
   public:
    Scope(PhaseClock& clock, std::string phase, std::string detail = {})
        : clock_(clock),
          detail_(std::move(detail)),
          outer_(clock.enter(std::move(phase))),
          begin_(clock.since_) {}
    ~Scope() {
      const std::string phase = clock_.enter(std::move(outer_));
      clock_.keep(phase, detail_, begin_);
    }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    PhaseClock& clock_;
    std::string detail_;
    std::string outer_;
    std::chrono::steady_clock::time_point begin_;
  };

  /// Seconds by phase, up to the last time that a phase began or ended.
  const std::map<std::string, double>& seconds() const { return seconds_; }
  /// Adds to the work of this kind, in its own unit: rates are computed from it.
  void count_work(const std::string& kind, double amount) { work_[kind] += amount; }
  /// By kind.
  const std::map<std::string, double>& work() const { return work_; }
  /// In the order in which they ended; empty unless they are kept.
  const std::vector<Span>& spans() const { return spans_; }

 private:
  using Clock = std::chrono::steady_clock;

  static double seconds_between(Clock::time_point from, Clock::time_point to) {
    return std::chrono::duration<double>(to - from).count();
  }

  std::string enter(std::string phase) {
    if (synchronize_) synchronize_();
    const auto now = Clock::now();
    if (!current_.empty()) seconds_[current_] += seconds_between(since_, now);
    since_ = now;
    return std::exchange(current_, std::move(phase));
  }

  void keep(const std::string& phase, const std::string& detail, Clock::time_point begin) {
    if (!keeps_spans_) return;
    spans_.push_back(
        {phase, detail, seconds_between(origin_, begin), seconds_between(origin_, since_)});
  }

  bool keeps_spans_;
  std::function<void()> synchronize_;
  Clock::time_point origin_;
  std::map<std::string, double> seconds_;
  std::map<std::string, double> work_;
  std::vector<Span> spans_;
  std::string current_;
  Clock::time_point since_;
};

}  // namespace dotresize
