#pragma once

#include <thread>

#include "base/files/capped_file.h"
#include "base/files/unique_fd.h"

namespace dotresize {

/// Copies data from a pipe to a file (capped_file.h), on a thread of its own. A full disk loses log
/// data but blocks no writer.
class CappedLog {
 public:
  /// `file` is open for appending. Throws std::system_error.
  CappedLog(UniqueFd file, int64_t limit);
  /// Calls finish().
  ~CappedLog();

  /// Returns the write end of the pipe.
  int pipe() const { return write_end_.get(); }
  /// Starts the thread. Call after the last fork: a child process would not have it.
  void start();
  /// Closes this object's write end, waits until all copies of it are closed and everything is
  /// written.
  void finish();

 private:
  CappedFile file_;
  UniqueFd read_end_;
  UniqueFd write_end_;
  std::thread thread_;
};

}  // namespace dotresize
