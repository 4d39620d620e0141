#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <thread>

#include "base/unique_fd.h"

namespace dotresize {

/// Writes what arrives on a pipe to a file, on a thread of its own: `limit` bytes of it, then a
/// line that says so, and of the rest the last 64 KiB, where errors stand. A disk that is full
/// costs the log, and holds up nobody who writes.
class CappedLog {
 public:
  /// `file` is open for appending. Throws std::system_error.
  CappedLog(UniqueFd file, int64_t limit);
  /// finish().
  ~CappedLog();

  /// Where to write.
  int pipe() const { return write_end_.get(); }
  /// Call after the last fork: only this process has the thread.
  void start();
  /// Waits until all copies of pipe(), this object's aside, are closed and everything is written.
  void finish();

 private:
  void copy();
  void take(std::string_view data);
  void write(std::string_view data) const;

  UniqueFd file_;
  int64_t left_;
  int64_t dropped_ = 0;
  std::string tail_;  ///< the end of what came beyond the limit
  UniqueFd read_end_;
  UniqueFd write_end_;
  std::thread thread_;
};

}  // namespace dotresize
