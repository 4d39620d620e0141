#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/unique_fd.h"

namespace dotresize {

/// How much of what a program writes its log keeps, beside the end.
inline constexpr int64_t kMaxLogBytes = int64_t{64} << 20;

/// Appends to a file `limit` bytes, then a line that says so, and of the rest the last 64 KiB,
/// where errors stand. What a full disk does not take is lost.
class CappedFile {
 public:
  /// `file` is open for appending.
  CappedFile(UniqueFd file, int64_t limit);
  /// finish().
  ~CappedFile();
  CappedFile(const CappedFile&) = delete;
  CappedFile& operator=(const CappedFile&) = delete;

  void add(std::string_view data);
  /// Writes what comes after the limit. Nothing may be added afterwards.
  void finish();

 private:
  void write(std::string_view data) const;

  UniqueFd file_;
  int64_t left_;
  int64_t dropped_ = 0;
  std::string tail_;  ///< the end of what came beyond the limit
};

}  // namespace dotresize
