#pragma once

#include <cstdint>
#include <filesystem>
#include <mutex>

#include "base/files/unique_fd.h"

namespace dotresize {

/// Number of the newest job that a client was told of, in a file beside the job table. It reveals a
/// table that has lost its newest rows, which SQLite does not notice. Thread-safe.
class AcknowledgedJobs {
 public:
  /// Opens the file; creates it if it is missing. Throws std::system_error.
  explicit AcknowledgedJobs(std::filesystem::path file);

  /// Throws std::runtime_error, which says how to go on, if a job newer than `last` was
  /// acknowledged. `last`: number of the newest job that the table has known.
  void require_at_most(int64_t last);
  /// Records a job that is about to be acknowledged. A failed write is only logged.
  void put(int64_t number);

 private:
  std::filesystem::path path_;
  UniqueFd file_;
  std::mutex mutex_;
  int64_t newest_ = 0;
};

}  // namespace dotresize
