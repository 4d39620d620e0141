#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "server/api/job_query.h"
#include "server/store/job_store.h"
#include "server/store/recent_changes.h"

namespace dotresize {

/// What WatchJobs sends to a client: a listing of the jobs that match, then their changes. Of a
/// client that reads slowly it keeps nothing but a position in RecentChanges: if the next change is
/// not there any more, another listing begins. For one thread at a time.
class JobChangeFeed {
 public:
  /// `store` outlives it. INVALID_ARGUMENT.
  JobChangeFeed(JobStore& store, const v1::WatchJobsRequest& request);

  /// Appends the next messages, some dozens at most; none if there is nothing new.
  void read(std::deque<v1::JobChange>& messages);

 private:
  void begin_listing();
  /// The next jobs of the listing, as they are after what has happened since the last ones.
  void list_more(std::deque<v1::JobChange>& messages);
  /// Those of them that the client is to hear of.
  void add(const std::vector<RecentChange>& changes, std::deque<v1::JobChange>& messages);
  /// A message without a job.
  v1::JobChange& add(v1::JobChange::Kind kind, std::deque<v1::JobChange>& messages) const;

  JobStore& store_;
  const v1::ListJobsRequest::Filter filter_;
  JobQuery query_;       ///< in a listing `before`: the jobs from there on are listed, 0: none is
  int64_t seen_ = 0;     ///< number of the last change that is taken into account
  bool listing_ = true;  ///< not complete yet
};

}  // namespace dotresize
