#pragma once

#include <chrono>
#include <map>
#include <mutex>
#include <string>

namespace dotresize {

/// Rate limit of calls: a token bucket per caller, which fills with `rate` calls per second up to
/// ten seconds' worth. Thread-safe.
class RateLimit {
 public:
  using Clock = std::chrono::steady_clock;

  /// `rate` 0: no limit.
  explicit RateLimit(int rate) : rate_(rate) {}

  /// Counts a call of this caller. Returns false if the caller is over the limit.
  bool try_take(const std::string& caller, Clock::time_point now = Clock::now());
  /// Counts a call like try_take(). Throws RESOURCE_EXHAUSTED if the caller is over the limit.
  void take(const std::string& caller, Clock::time_point now = Clock::now());

 private:
  struct Bucket {
    double calls = 0.0;  ///< calls left
    Clock::time_point filled;
  };

  double capacity() const;
  /// Removes full buckets, whose callers need no record.
  void forget_full_ones(Clock::time_point now);

  const int rate_;
  std::mutex mutex_;
  std::map<std::string, Bucket> buckets_;
};

}  // namespace dotresize
