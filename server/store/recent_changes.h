#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/process/environment.h"
#include "base/process/mutex.h"
#include "base/text/encodings.h"
#include "dotresize/v1/jobs.pb.h"

namespace dotresize {

/// Returns the job as a list shows it: the spec has only its name, and a sweep is empty.
v1::Job basic_view(v1::Job job);

/// Committed change of a job.
struct RecentChange {
  int64_t sequence = 0;  ///< 1, 2, 3 ... in the order of the commits, over all jobs
  int64_t number = 0;    ///< job's number: order of creation
  v1::Job::State before = v1::Job::STATE_UNSPECIFIED;  ///< previous state; unspecified: new job
  bool deleted = false;
  std::shared_ptr<const v1::Job> job;  ///< basic_view() after the change; if deleted, before it
};

/// Newest changes of all jobs, in memory: at most 4096 and at most 4 MiB. Thread-safe.
class RecentChanges {
 public:
  static constexpr size_t kMaxChanges = 4096;
  static constexpr size_t kMaxBytes = size_t{4} << 20;

  /// Identity of these numbers: another object has another epoch.
  const std::string epoch = hex_digits(random_bytes(8));

  /// Returns the number of the newest change; 0: none yet.
  int64_t last() const;
  /// Adds changes and numbers them.
  void add(std::vector<RecentChange> changes);
  /// Returns the first `limit` changes after this number; nullopt if one of them is no longer kept,
  /// or the number has not been given out.
  std::optional<std::vector<RecentChange>> after(int64_t sequence, size_t limit) const;

 private:
  struct Entry {
    RecentChange change;
    size_t bytes = 0;
  };

  mutable Mutex mutex_;
  std::deque<Entry> entries_ DOTRESIZE_GUARDED_BY(mutex_);
  int64_t last_ DOTRESIZE_GUARDED_BY(mutex_) = 0;
  size_t bytes_ DOTRESIZE_GUARDED_BY(mutex_) = 0;
};

}  // namespace dotresize
