#include "server/access/rate_limit.h"

#include <algorithm>

#include "server/api_error.h"

namespace dotresize {
namespace {

constexpr double kBurstSeconds = 10.0;
constexpr size_t kMaxBuckets = 4096;

double seconds(RateLimit::Clock::duration time) {
  return std::chrono::duration<double>(time).count();
}

}  // namespace

double RateLimit::capacity() const { return kBurstSeconds * rate_; }

void RateLimit::forget_full_ones(Clock::time_point now) {
  std::erase_if(buckets_, [&](const auto& entry) {
    return entry.second.calls + rate_ * seconds(now - entry.second.filled) >= capacity();
  });
}

bool RateLimit::try_take(const std::string& caller, Clock::time_point now) {
  if (rate_ == 0) return true;
  const std::lock_guard lock(mutex_);
  if (buckets_.size() >= kMaxBuckets) forget_full_ones(now);
  Bucket& bucket = buckets_.try_emplace(caller, Bucket{capacity(), now}).first->second;
  bucket.calls = std::min(capacity(), bucket.calls + rate_ * seconds(now - bucket.filled));
  bucket.filled = now;
  if (bucket.calls < 1.0) return false;
  bucket.calls -= 1.0;
  return true;
}

void RateLimit::take(const std::string& caller, Clock::time_point now) {
  if (try_take(caller, now)) return;
  throw try_again(grpc::StatusCode::RESOURCE_EXHAUSTED, "TOO_MANY_CALLS",
                  "more than " + std::to_string(rate_) + " calls a second (--max-rate)",
                  std::chrono::seconds(1));
}

}  // namespace dotresize
