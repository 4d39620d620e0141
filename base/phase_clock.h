#pragma once

#include <chrono>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace dotresize {

/// Seconds of wall time since `start`.
inline double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/// The moment when a device has completed all work queued before it. It is not earlier than the
/// host's request for it.
class DeviceMoment {
 public:
  DeviceMoment() = default;
  virtual ~DeviceMoment() = default;
  DeviceMoment(const DeviceMoment&) = delete;
  DeviceMoment& operator=(const DeviceMoment&) = delete;
  virtual bool passed() const noexcept = 0;
  /// Blocks until the moment has passed.
  virtual void wait() const noexcept = 0;
  /// Seconds from `earlier` to this moment. Both must have passed.
  virtual double seconds_since(const DeviceMoment& earlier) const noexcept = 0;
};

/// Records a moment. Does not throw.
using MarkMoment = std::function<std::shared_ptr<DeviceMoment>()>;

/// Wall time by phase of one rank. Phases nest, and time counts for the innermost one only, so the
/// phases add up to the time measured. Not thread-safe.
///
/// A phase with a device lasts until the device has done its work. Nobody waits for that: the host
/// is in later phases by then.
class PhaseClock {
 public:
  /// One run of a phase, including inner phases. Times are seconds since set_origin.
  struct Span {
    std::string phase;
    std::string detail;  ///< subject, such as the junction's name; may be empty
    double begin_s = 0.0;
    double end_s = 0.0;
  };

  /// `keeps_spans`: records spans for a timeline. Each takes about a hundred bytes, and with a
  /// device each phase waits for its end, because timelines use the host's clock. `mark`: records a
  /// moment of the device; empty: no device.
  explicit PhaseClock(bool keeps_spans = false, MarkMoment mark = {})
      : keeps_spans_(keeps_spans), mark_(std::move(mark)) {
    set_origin();
  }

  /// Starts the measurement again and drops earlier times. If ranks call it right after a barrier,
  /// their timelines agree. Call outside all phases.
  void set_origin() {
    origin_ = Clock::now();
    seconds_.clear();
    spans_.clear();
    pending_.clear();
    if (mark_) moment_ = mark_();
  }

  /// Work by kind, in the kind's own unit. Rates are computed from it.
  std::map<std::string, double> work;

  /// Assigns its lifetime to the phase.
  class Scope {
   public:
    Scope(PhaseClock& clock, std::string phase, std::string detail = {})
        : clock_(clock),
          detail_(std::move(detail)),
          outer_(clock.enter(std::move(phase))),
          begin_(clock.since_) {}
    ~Scope() {
      const std::string phase = clock_.enter(std::move(outer_));
      if (!clock_.keeps_spans_) return;
      const Seconds begin = begin_ - clock_.origin_;
      const Seconds end = clock_.since_ - clock_.origin_;
      clock_.spans_.push_back({phase, detail_, begin.count(), end.count()});
    }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    PhaseClock& clock_;
    std::string detail_;
    std::string outer_;
    std::chrono::steady_clock::time_point begin_;
  };

  /// Seconds by phase, up to the last begin or end of a phase. Waits for the device.
  const std::map<std::string, double>& seconds() const {
    if (!pending_.empty()) pending_.back().end->wait();
    count_passed();
    return seconds_;
  }
  /// Spans in the order in which they ended; empty unless `keeps_spans`.
  const std::vector<Span>& spans() const { return spans_; }

 private:
  using Clock = std::chrono::steady_clock;
  using Seconds = std::chrono::duration<double>;

  /// A phase whose device work may not be done yet.
  struct Pending {
    std::string phase;
    std::shared_ptr<DeviceMoment> begin;
    std::shared_ptr<DeviceMoment> end;
  };

  std::string enter(std::string phase) {
    if (mark_) {
      std::shared_ptr<DeviceMoment> moment = mark_();
      if (keeps_spans_) moment->wait();
      if (!current_.empty()) pending_.push_back({current_, moment_, moment});
      moment_ = std::move(moment);
      count_passed();
    }
    const auto now = Clock::now();
    if (!mark_ && !current_.empty()) seconds_[current_] += Seconds(now - since_).count();
    since_ = now;
    return std::exchange(current_, std::move(phase));
  }

  void count_passed() const {
    for (; !pending_.empty() && pending_.front().end->passed(); pending_.pop_front()) {
      const Pending& phase = pending_.front();
      seconds_[phase.phase] += phase.end->seconds_since(*phase.begin);
    }
  }

  bool keeps_spans_;
  MarkMoment mark_;
  Clock::time_point origin_;
  mutable std::map<std::string, double> seconds_;
  mutable std::deque<Pending> pending_;  ///< oldest first, as on the device
  std::shared_ptr<DeviceMoment> moment_;
  std::vector<Span> spans_;
  std::string current_;
  Clock::time_point since_;
};

}  // namespace dotresize
