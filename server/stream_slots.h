#pragma once

#include <atomic>

namespace dotresize {

/// Bounds the streams that are open at the same time (each takes a thread), and tells them when the
/// server stops.
class StreamSlots {
 public:
  explicit StreamSlots(int limit) : free_(limit) {}

  /// One open stream. RESOURCE_EXHAUSTED if there are too many.
  class Slot {
   public:
    explicit Slot(StreamSlots& slots);
    Slot(const Slot&) = delete;
    Slot& operator=(const Slot&) = delete;
    ~Slot() { ++slots_.free_; }

   private:
    StreamSlots& slots_;
  };

  void stop() { stopping_ = true; }
  /// UNAVAILABLE once the server is stopping: clients come back and resume.
  void check_stopping() const;

 private:
  std::atomic<int> free_;
  std::atomic<bool> stopping_{false};
};

}  // namespace dotresize
