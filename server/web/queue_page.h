#pragma once

#include <ctime>
#include <string>
#include <vector>

#include "dotresize/v1/jobs.pb.h"

namespace dotresize {

/// What the first page shows.
struct QueuePageView {
  v1::ServerInfo server;
  std::vector<std::string> faults;  ///< parts of the server that do not work
  std::vector<v1::Job> launched;    ///< STARTING and RUNNING
  std::vector<v1::Job> queued;      ///< the head of the queue, with their positions
  std::vector<v1::Job> ended;       ///< the newest ones
  std::string form_token = {};      ///< of an admin who may drain the server; empty: of nobody
};

/// Resources and queue, as the HTML of a Frame's body.
std::string queue_page_html(const QueuePageView& view, std::time_t now);

}  // namespace dotresize
