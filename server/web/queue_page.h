#pragma once

#include <ctime>
#include <string>
#include <vector>

#include "dotresize/v1/jobs.pb.h"

namespace dotresize {

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
