#pragma once

#include <chrono>
#include <ctime>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "dotresize/v1/jobs.pb.h"
#include "job/page/page.h"

namespace dotresize {

/// Content of a job's page.
struct JobPageView {
  v1::Job job;                                       ///< result of GetJob
  std::optional<std::chrono::seconds> silence = {};  ///< since a running job's last heartbeat
  std::string log_tail = {};
  std::optional<Page> report = {};  ///< report on the job's output
  std::string report_fault = {};    ///< error text if the report cannot be shown
  bool has_report_page = false;     ///< true if /jobs/ID/report exists
  std::string form_token = {};      ///< empty: the visitor may not change the job
};

/// Number of bytes shown of a log's end.
inline constexpr size_t kShownLogBytes = size_t{64} << 10;

/// HTML of a Frame's body: progress, error, facts about the job, result, log. Frame::report draws
/// the result.
std::string job_page_html(const JobPageView& view, std::time_t now);

/// True if the job may have a report by now: a succeeded job, or a sweep that has begun.
bool may_have_report(const v1::Job& job);

/// Report page of such a job; `output` is the directory from reported_in(). Throws InputError if
/// the report is gone, is not this job's, or is malformed or too large for a page.
Page read_report_page(const v1::Job& job, const std::filesystem::path& output);

/// Filters of the jobs page.
struct JobsPageQuery {
  std::string state = {};  ///< a choice of the page; empty: all
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
