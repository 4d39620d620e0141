#pragma once

#include <string>

#include "job/page/page.h"

namespace dotresize {

/// A job that ended without a result.
struct EndedJob {
  std::string name = {};
  std::string state = {};  ///< "failed", "cancelled"
  std::string error = {};  ///< empty: no error is known
  /// Names and values, such as time, rank and host.
  std::vector<std::vector<std::string>> facts = {};
  std::string spec = {};      ///< the job as JSON
  std::string log_tail = {};  ///< last bytes of the log; empty: no log
};

/// Page that explains why there is no result.
Page failure_page(const EndedJob& job);

/// Largest part of a log that is shown, in bytes.
inline constexpr int64_t kLogTailBytes = 32'768;

}  // namespace dotresize
