#pragma once

#include <grpcpp/support/status.h>

#include <cstdint>
#include <filesystem>
#include <mutex>
#include <string>

#include "base/files/unique_fd.h"

namespace dotresize {

/// Log of calls that change something or are denied: one JSON object per line. Thread-safe.
class AuditLog {
 public:
  /// Opens the file for appending; creates it with mode 0600 if missing. Throws std::system_error.
  explicit AuditLog(const std::filesystem::path& file);

  struct Entry {
    std::string method;  ///< "CancelJob"
    std::string caller;  ///< empty: unknown
    std::string peer;    ///< peer address
    std::string job;     ///< id; empty: none
    grpc::StatusCode code = grpc::StatusCode::OK;
    std::string message;     ///< reason of a refusal
    int64_t unrecorded = 0;  ///< denied calls left out since the last line of one (rate limit)
  };
  /// Appends a line. A failed write is only logged: a full disk must not block calls.
  void record(const Entry& entry);

 private:
  std::mutex mutex_;
  UniqueFd file_;
};

}  // namespace dotresize
