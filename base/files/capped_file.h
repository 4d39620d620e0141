#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <thread>

#include "base/files/unique_fd.h"

namespace dotresize {

/// Bytes of a program's output that its log keeps, besides the end.
inline constexpr int64_t kMaxLogBytes = int64_t{64} << 20;

/// Appends up to `limit` bytes to a file. Of the rest it keeps the last 64 KiB, where errors are,
/// after a line that states how much was left out. Bytes that a full disk does not take are lost.
class CappedFile {
 public:
  /// `file` is open for appending.
  CappedFile(UniqueFd file, int64_t limit);
  /// Calls finish().
  ~CappedFile();
  CappedFile(const CappedFile&) = delete;
  CappedFile& operator=(const CappedFile&) = delete;

  void add(std::string_view data);
  /// Writes the kept end. Nothing may be added afterwards.
  void finish();

 private:
  void write(std::string_view data) const;

  UniqueFd file_;
  int64_t left_;
  int64_t dropped_ = 0;
  std::string tail_;  ///< the end of the data beyond the limit
};

/// Copies data from a pipe to a CappedFile, on a thread of its own. A full disk loses log
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
