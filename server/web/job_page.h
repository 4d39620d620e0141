#pragma once

#include <chrono>
#include <ctime>
#include <optional>
#include <string>

#include "dotresize/v1/jobs.pb.h"
#include "job/page/page.h"

namespace dotresize {

/// What the page of a job shows.
struct JobPageView {
  v1::Job job;                                       ///< as GetJob has it
  std::optional<std::chrono::seconds> silence = {};  ///< since the last heartbeat of one that runs
  std::string log_tail = {};
  std::optional<Page> report = {};  ///< of what it has made
  std::string report_fault = {};    ///< why that cannot be shown
  bool has_report_page = false;     ///< /jobs/ID/report
  std::string form_token = {};      ///< of a visitor who may change the job; empty: of another
};

/// Of a log this many bytes are shown, its last ones.
inline constexpr size_t kShownLogBytes = size_t{64} << 10;

/// Progress, error, result with its figures, what is known of the job, log: the HTML of a Frame's
/// body, to which the figures of `view.report` belong.
std::string job_page_html(const JobPageView& view, std::time_t now);

}  // namespace dotresize
