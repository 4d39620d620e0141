#pragma once

#include <ctime>
#include <string>
#include <vector>

#include "dotresize/v1/jobs.pb.h"

namespace dotresize {

/// Content of a table of jobs.
struct JobTableView {
  std::string heading;
  std::vector<v1::Job> jobs;
  std::string none;            ///< text shown if there are no jobs
  std::string all_state = {};  ///< filter of the link at the end; empty: no link
  std::string all_text = {};
};

/// HTML table with a row for each job.
std::string job_table_html(const JobTableView& view, std::time_t now);

/// Progress, reason to wait, or outcome of the job in a few words; "" if its state says it all.
std::string status_line_of(const v1::Job& job);

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

/// Content of the first page.
struct QueuePageView {
  v1::ServerInfo server;
  std::vector<std::string> faults;  ///< faults of the server's parts
  std::vector<v1::Job> launched;    ///< STARTING and RUNNING
  std::vector<v1::Job> queued;      ///< head of the queue, with positions
  std::vector<v1::Job> ended;       ///< newest ended jobs
  std::string form_token = {};      ///< empty: the visitor may not drain the server
};

/// HTML of a Frame's body with resources and queue.
std::string queue_page_html(const QueuePageView& view, std::time_t now);

}  // namespace dotresize
