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

}  // namespace dotresize
