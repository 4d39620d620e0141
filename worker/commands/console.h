#pragma once

#include <chrono>
#include <mutex>
#include <string>

#include "worker/commands/progress.h"

namespace dotresize {

/// Progress as plain lines on stderr: one when the phase changes, then at most one every five
/// seconds. Thread-safe.
class ProgressLines {
 public:
  void show(const ProgressState& state);

 private:
  using Clock = std::chrono::steady_clock;
  std::mutex mutex_;
  std::string phase_;
  Clock::time_point start_ = Clock::now();
  Clock::time_point last_;
};

}  // namespace dotresize
