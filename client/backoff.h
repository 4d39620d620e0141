#pragma once

#include <chrono>
#include <optional>

namespace dotresize {

/// Doubling pauses between attempts, until `patience` has passed since the first failure.
class Backoff {
 public:
  using Milliseconds = std::chrono::milliseconds;

  Backoff(Milliseconds first, Milliseconds longest, Milliseconds patience);

  /// The pause before the next attempt, or nothing when it is time to give up.
  std::optional<Milliseconds> next();
  /// An attempt succeeded: the next failure is a first one again.
  void reset();

 private:
  using Clock = std::chrono::steady_clock;

  Milliseconds first_;
  Milliseconds longest_;
  Milliseconds patience_;
  Milliseconds pause_;
  std::optional<Clock::time_point> failing_since_;
};

}  // namespace dotresize
