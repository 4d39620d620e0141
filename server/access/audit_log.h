#pragma once

#include <grpcpp/support/status.h>

#include <cstdint>
#include <filesystem>
#include <mutex>
#include <string>

#include "base/unique_fd.h"

namespace dotresize {

/// Who did what to which job, or was kept from it: one JSON object a line. Safe to use from any
/// thread.
class AuditLog {
 public:
  /// Appends to the file, which is made (0600) if it is missing. Throws std::system_error.
  explicit AuditLog(const std::filesystem::path& file);

  struct Entry {
    std::string method;  ///< "CancelJob"
    std::string caller;  ///< empty: not known
    std::string peer;    ///< address
    std::string job;     ///< id; empty: none
    grpc::StatusCode code = grpc::StatusCode::OK;
    std::string message;     ///< why it was refused
    int64_t unrecorded = 0;  ///< denied calls since the last line of one, which came too fast
  };
  /// Logs what cannot be written: a full disk stops nobody from cancelling a job.
  void record(const Entry& entry);

 private:
  std::mutex mutex_;
  UniqueFd file_;
};

}  // namespace dotresize
