#pragma once

#include <cstdint>
#include <filesystem>
#include <mutex>

#include "base/unique_fd.h"

namespace dotresize {

/// The number of the newest job that a client was told of, in a file beside the job table. A table
/// that has lost its end is whole for SQLite, and knows of fewer jobs. Safe to use from any thread.
class AcknowledgedJobs {
 public:
  /// Makes the file if it is missing. Throws std::system_error.
  explicit AcknowledgedJobs(std::filesystem::path file);

  /// Throws std::runtime_error, with how to go on, if a job was acknowledged that the table, whose
  /// newest one is `last`, does not have.
  void require_at_most(int64_t last);
  /// A job is about to be acknowledged. What cannot be written is logged.
  void put(int64_t number);

 private:
  std::filesystem::path path_;
  UniqueFd file_;
  std::mutex mutex_;
  int64_t newest_ = 0;
};

}  // namespace dotresize
