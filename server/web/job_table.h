#pragma once

#include <ctime>
#include <string>
#include <vector>

#include "dotresize/v1/jobs.pb.h"

namespace dotresize {

/// A list of jobs for people.
struct JobTableView {
  std::string heading;
  std::vector<v1::Job> jobs;
  std::string none;  ///< what is said if there are none
  std::string all_state =
      {};  ///< state of the list that a link at the end leads to; empty: no link
  std::string all_text = {};
};

/// A row for each, as HTML.
std::string job_table_html(const JobTableView& view, std::time_t now);

/// How far the job is, what it waits for or how it has ended, in a few words; "" if its state says
/// it all.
std::string stand_of(const v1::Job& job);

}  // namespace dotresize
