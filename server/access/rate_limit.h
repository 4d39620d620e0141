#pragma once

#include <chrono>
#include <map>
#include <mutex>
#include <string>

namespace dotresize {

/// How often each caller may call: a bucket for each, that fills with `rate` calls a second up to
/// those of ten seconds. Safe to use from any thread.
class RateLimit {
 public:
  using Clock = std::chrono::steady_clock;

  /// `rate` 0: as often as they like.
  explicit RateLimit(int rate) : rate_(rate) {}

  /// A call of this caller; false if it comes too early.
  bool try_take(const std::string& caller, Clock::time_point now = Clock::now());
  /// The same; RESOURCE_EXHAUSTED if it comes too early.
  void take(const std::string& caller, Clock::time_point now = Clock::now());

 private:
  struct Bucket {
    double calls = 0.0;  ///< that are left
    Clock::time_point filled;
  };

  double capacity() const;
  /// Forgets those who may call as often as anybody.
  void forget_full_ones(Clock::time_point now);

  const int rate_;
  std::mutex mutex_;
  std::map<std::string, Bucket> buckets_;
};

}  // namespace dotresize
