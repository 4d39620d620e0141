#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "dotresize/v1/jobs.pb.h"

namespace dotresize {

/// The job as a list shows it: of the spec its name alone, of a sweep that it is one.
v1::Job basic_view(v1::Job job);

/// A change of a job that is committed.
struct RecentChange {
  int64_t sequence = 0;  ///< 1, 2, 3 ... in the order of the commits, over all jobs
  int64_t number = 0;    ///< of the job: the order of creation
  v1::Job::State before = v1::Job::STATE_UNSPECIFIED;  ///< its state; unspecified: it is new
  bool deleted = false;
  std::shared_ptr<const v1::Job> job;  ///< basic_view() after the change, of a deleted one before
};

/// The newest changes of all jobs, in memory: at most 4096, of at most 4 MiB. Safe to use from any
/// thread.
class RecentChanges {
 public:
  static constexpr size_t kMaxChanges = 4096;
  static constexpr size_t kMaxBytes = size_t{4} << 20;

  RecentChanges();

  /// Which numbers these are: another object has another epoch.
  const std::string& epoch() const { return epoch_; }
  /// The number of the newest one; 0: there is none yet.
  int64_t last() const;
  /// Gives them their numbers.
  void add(std::vector<RecentChange> changes);
  /// The first `limit` after this number; nothing if one of them is not here any more, or the
  /// number has not been given out.
  std::optional<std::vector<RecentChange>> after(int64_t sequence, size_t limit) const;

 private:
  struct Entry {
    RecentChange change;
    size_t bytes = 0;
  };

  const std::string epoch_;
  mutable std::mutex mutex_;
  std::deque<Entry> entries_;
  int64_t last_ = 0;
  size_t bytes_ = 0;
};

}  // namespace dotresize
