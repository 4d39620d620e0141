#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <string>
#include <utility>

namespace dotresize {

/// Wall time by phase of one rank. Phases nest, and time counts for the innermost one alone, so the
/// phases add up to the time measured. Not thread-safe.
class PhaseClock {
 public:
  /// Time until the end of its life belongs to the phase.
  class Scope {
   public:
    Scope(PhaseClock& clock, std::string phase)
        : clock_(clock), outer_(clock.enter(std::move(phase))) {}
    ~Scope() { clock_.enter(std::move(outer_)); }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    PhaseClock& clock_;
    std::string outer_;
  };

  /// `finish_work`: called at the end of each phase, before its time is taken: waits for work that
  /// was started and not waited for, as on a GPU. Throws nothing.
  explicit PhaseClock(std::function<void()> finish_work = {})
      : finish_work_(std::move(finish_work)) {}

  /// Seconds by phase so far.
  const std::map<std::string, double>& seconds() const { return seconds_; }

 private:
  std::string enter(std::string phase) {
    if (finish_work_) finish_work_();
    const auto now = std::chrono::steady_clock::now();
    if (!current_.empty()) {
      seconds_[current_] += std::chrono::duration<double>(now - since_).count();
    }
    since_ = now;
    return std::exchange(current_, std::move(phase));
  }

  std::function<void()> finish_work_;
  std::map<std::string, double> seconds_;
  std::string current_;
  std::chrono::steady_clock::time_point since_;
};

}  // namespace dotresize
