#include "client/backoff.h"

#include <algorithm>

namespace dotresize {

Backoff::Backoff(Milliseconds first, Milliseconds longest, Milliseconds patience)
    : first_(first), longest_(longest), patience_(patience), pause_(first) {}

std::optional<Backoff::Milliseconds> Backoff::next() {
  const Clock::time_point now = Clock::now();
  if (!failing_since_) failing_since_ = now;
  const Milliseconds pause = pause_;
  if (now + pause > *failing_since_ + patience_) return std::nullopt;
  pause_ = std::min(2 * pause_, longest_);
  return pause;
}

void Backoff::reset() {
  failing_since_.reset();
  pause_ = first_;
}

}  // namespace dotresize
