#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>

namespace dotresize {

/// Tells waiting threads that something has changed. Take `version()` before looking at the data,
/// then wait for a later one: no change is missed.
class ChangeSignal {
 public:
  uint64_t version() const {
    const std::lock_guard lock(mutex_);
    return version_;
  }

  void notify() {
    {
      const std::lock_guard lock(mutex_);
      ++version_;
    }
    changed_.notify_all();
  }

  void wait_past(uint64_t version, std::chrono::milliseconds longest) const {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, longest, [&] { return version_ != version; });
  }

 private:
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  uint64_t version_ = 0;
};

}  // namespace dotresize
