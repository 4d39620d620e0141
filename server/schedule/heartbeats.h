#pragma once

#include <chrono>
#include <map>
#include <mutex>
#include <string>

#include "dotresize/v1/jobs.pb.h"

namespace dotresize {

/// When each running job sent its last heartbeat, and which progress is worth storing. Kept in
/// memory: a restarted server gives every job the whole timeout again. Safe to use from any thread.
class Heartbeats {
 public:
  using Clock = std::chrono::steady_clock;

  /// An attempt begins, or is found again.
  void begin(const std::string& id);
  /// Every one of them, as if it began now.
  void begin_all();
  void forget(const std::string& id);

  /// A heartbeat has come.
  void beat(const std::string& id);
  /// Whether `progress` is to be stored: a new phase, or something new and a second after the last.
  bool is_worth_storing(const std::string& id, const v1::Progress& progress);

  /// Time since the last heartbeat, or since `begin`.
  Clock::duration silence(const std::string& id) const;
  /// The longest of any; 0 without attempts.
  Clock::duration longest_silence() const;

 private:
  struct Entry {
    Clock::time_point heard;
    Clock::time_point stored;
    v1::Progress progress;  ///< the last one stored
  };

  mutable std::mutex mutex_;
  std::map<std::string, Entry> entries_;
};

}  // namespace dotresize
