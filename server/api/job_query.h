#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "dotresize/v1/jobs.pb.h"
#include "server/store/job_records.h"
#include "server/store/job_store.h"
#include "server/store/recent_changes.h"

namespace dotresize {

/// Converts a filter to a query. Throws INVALID_ARGUMENT with the field that is wrong.
JobQuery query_of(const v1::ListJobsRequest::Filter& filter);

/// Makes the token of the next page for this filter. It holds a position of the job table, so new
/// jobs do not shift pages.
std::string make_page_token(int64_t next_before, const v1::ListJobsRequest::Filter& filter);

/// Returns the position; 0 for an empty token. Throws INVALID_ARGUMENT for a token that was not
/// made for this filter.
int64_t read_page_token(const std::string& token, const v1::ListJobsRequest::Filter& filter);

/// Messages that WatchJobs sends to a client: a listing of the jobs that match, then their changes.
/// Keeps nothing for a slow client but its position in RecentChanges: if the next change is no
/// longer there, a new listing begins. Not thread-safe.
class JobChangeFeed {
 public:
  /// `store` outlives it. A cursor is "EPOCH.SEQUENCE.FINGERPRINT", of RecentChanges and the
  /// filter. Throws INVALID_ARGUMENT, also for a cursor that was not made for this filter.
  JobChangeFeed(JobStore& store, const v1::WatchJobsRequest& request);

  /// Appends the next messages, some dozens at most; none if nothing is new.
  void read(std::deque<v1::JobChange>& messages);

 private:
  /// Appends the changes that the client must hear of.
  void add(const std::vector<RecentChange>& changes, std::deque<v1::JobChange>& messages);
  /// Appends a message without a job.
  v1::JobChange& add(v1::JobChange::Kind kind, std::deque<v1::JobChange>& messages) const;

  JobStore& store_;
  const v1::ListJobsRequest::Filter filter_;
  JobQuery query_;       ///< during a listing, jobs from `before` on are listed; 0: none yet
  int64_t seen_ = 0;     ///< number of the last change that was handled
  bool listing_ = true;  ///< listing is not complete
};

}  // namespace dotresize
