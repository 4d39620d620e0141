#pragma once

#include <string>

#include "job/page/page.h"

namespace dotresize {

/// A job that has ended without a result.
struct EndedJob {
  std::string name = {};
  std::string state = {};  ///< "failed", "cancelled"
  std::string error = {};  ///< empty if nobody has said one
  /// Name and value: when, which rank, on which host.
  std::vector<std::vector<std::string>> facts = {};
  std::string spec = {};      ///< the job as JSON
  std::string log_tail = {};  ///< bytes of its end; empty: there is none
};

/// Why there is no result.
Page failure_page(const EndedJob& job);

/// At most this many bytes of a log are shown.
inline constexpr int64_t kLogTailBytes = 32'768;

}  // namespace dotresize
