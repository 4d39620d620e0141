#include "server/schedule/queue_hold.h"

#include <spdlog/spdlog.h>

#include <algorithm>

namespace dotresize {
namespace {

constexpr std::chrono::seconds kFirstHold{1};
constexpr std::chrono::seconds kLongestHold{60};

}  // namespace

std::chrono::seconds QueueHold::begin(const std::string& reason, Clock::time_point now) {
  if (now >= until_) {
    length_ = is_on() ? std::min(2 * length_.load(), kLongestHold) : kFirstHold;
    until_ = now + length_.load();
    reason_ = reason;
    launched_.clear();
  }
  const auto left = std::chrono::ceil<std::chrono::seconds>(until_ - now);
  spdlog::error("the queue is held for {} s, because this machine cannot start jobs: {}",
                left.count(), reason);
  return left;
}

void QueueHold::launch(const std::string& id, Clock::time_point now) {
  if (is_on()) launched_[id] = now;
}

void QueueHold::see(const std::string& id, bool runs, Clock::time_point now) {
  const auto found = launched_.find(id);
  if (found == launched_.end()) return;
  if (runs || now - found->second >= kLongestHold) end();
}

void QueueHold::see_empty_queue(Clock::time_point now) {
  if (now >= until_ && launched_.empty()) end();
}

std::string QueueHold::reason(Clock::time_point now) const { return now < until_ ? reason_ : ""; }

void QueueHold::end() {
  length_ = std::chrono::seconds(0);
  launched_.clear();
}

}  // namespace dotresize
