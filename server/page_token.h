#pragma once

#include <cstdint>
#include <string>

#include "dotresize/v1/jobs.pb.h"

namespace dotresize {

/// Says where the next page begins, and of which filter: positions are those of the job table, so
/// new jobs do not shift pages.
std::string make_page_token(int64_t next_before, const v1::ListJobsRequest::Filter& filter);

/// The position; 0 for an empty token. INVALID_ARGUMENT for a token that was not made for this
/// filter.
int64_t read_page_token(const std::string& token, const v1::ListJobsRequest::Filter& filter);

}  // namespace dotresize
