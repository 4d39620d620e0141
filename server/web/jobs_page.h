#pragma once

#include <ctime>
#include <string>
#include <vector>

#include "dotresize/v1/jobs.pb.h"

namespace dotresize {

/// A choice of the list's state filter.
struct StateChoice {
  std::string value;  ///< value in the page's URL; empty: all
  std::string label;
  std::vector<v1::Job::State> states;
};

const std::vector<StateChoice>& state_choices();

/// Filters of the jobs page.
struct JobsPageQuery {
  std::string state = {};  ///< StateChoice::value
  std::string name = {};   ///< exact name; empty: all
  std::string owner = {};  ///< exact owner; empty: all
  std::string page = {};   ///< token of a later page; empty: first page

  /// Returns the API request. Throws ApiError INVALID_ARGUMENT for values that the page does not
  /// offer.
  v1::ListJobsRequest request() const;
};

/// HTML of a Frame's body with the list.
std::string jobs_page_html(const JobsPageQuery& query, const v1::ListJobsResponse& found,
                           std::time_t now);

}  // namespace dotresize
