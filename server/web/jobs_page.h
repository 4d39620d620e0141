#pragma once

#include <ctime>
#include <string>
#include <vector>

#include "dotresize/v1/jobs.pb.h"

namespace dotresize {

/// A choice of the list's first filter.
struct StateChoice {
  std::string value;  ///< in the address of the page; empty: all
  std::string label;
  std::vector<v1::Job::State> states;
};

const std::vector<StateChoice>& state_choices();

/// Which jobs somebody wants to see.
struct JobsPageQuery {
  std::string state = {};  ///< StateChoice::value
  std::string name = {};   ///< exact; empty: all
  std::string owner = {};  ///< likewise
  std::string page = {};   ///< token of a later page; empty: the first one

  /// INVALID_ARGUMENT, as an ApiError, for what the page does not offer.
  v1::ListJobsRequest request() const;
};

/// The list, as the HTML of a Frame's body.
std::string jobs_page_html(const JobsPageQuery& query, const v1::ListJobsResponse& found,
                           std::time_t now);

}  // namespace dotresize
