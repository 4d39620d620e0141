#pragma once

#include <thread>

#include "base/capped_file.h"
#include "base/unique_fd.h"

namespace dotresize {

/// Writes what arrives on a pipe to a file (capped_file.h), on a thread of its own. A disk that is
/// full costs the log, and holds up nobody who writes.
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

  CappedFile file_;
  UniqueFd read_end_;
  UniqueFd write_end_;
  std::thread thread_;
};

}  // namespace dotresize
