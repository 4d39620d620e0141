#pragma once

#include <cstdint>
#include <string>
#include <string_view>

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

}  // namespace dotresize
