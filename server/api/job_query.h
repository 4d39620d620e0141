#pragma once

#include <cstdint>
#include <string>

#include "dotresize/v1/jobs.pb.h"
#include "server/store/job_table.h"

namespace dotresize {

/// The query that a filter asks for. INVALID_ARGUMENT with the field that is wrong.
JobQuery query_of(const v1::ListJobsRequest::Filter& filter);

/// Whether JobTable::list() would find this job by what never changes of one: all but its state.
bool matches(const JobQuery& query, const v1::Job& job);
/// Whether it would find a job in this state.
bool has_state(const JobQuery& query, v1::Job::State state);

/// Says where the next page begins, and of which filter: positions are those of the job table, so
/// new jobs do not shift pages.
std::string make_page_token(int64_t next_before, const v1::ListJobsRequest::Filter& filter);

/// The position; 0 for an empty token. INVALID_ARGUMENT for a token that was not made for this
/// filter.
int64_t read_page_token(const std::string& token, const v1::ListJobsRequest::Filter& filter);

/// Where a caller of WatchJobs is.
struct WatchPosition {
  std::string epoch;     ///< RecentChanges::epoch()
  int64_t sequence = 0;  ///< of the last change that it has seen
};

/// JobChange.cursor for calls with the same filter.
std::string make_cursor(const WatchPosition& position, const v1::ListJobsRequest::Filter& filter);

/// INVALID_ARGUMENT for what was not made for this filter.
WatchPosition read_cursor(const std::string& cursor, const v1::ListJobsRequest::Filter& filter);

}  // namespace dotresize
