#pragma once

#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include "server/access/call_gate.h"
#include "server/api/jobs_service.h"
#include "server/http/http_server.h"
#include "server/schedule/heartbeats.h"
#include "server/store/job_store.h"
#include "server/store/state_dir.h"
#include "server/web/frame.h"
#include "server/web/job_page.h"
#include "server/web/visitors.h"

namespace dotresize {

/// What the pages work with; all of it outlives them.
struct WebContext {
  JobsService& jobs;
  CallGate& gate;
  const Access& access;
  JobStore& store;
  const StateDir& state;
  const Heartbeats& heartbeats;
  std::function<std::vector<HealthCheck>()> health;
};

/// The server's web pages: queue, jobs, one job, its report. Whatever they show or do is a call of
/// the API, by who has signed in with a token; without tokens whoever reaches them may do all, as
/// with the API. Safe to use from any thread.
class WebPages {
 public:
  /// `host_names` and `tls` as of Visitors.
  WebPages(const WebContext& context, const std::vector<std::string>& host_names, bool tls);

  /// Adds all pages. The object outlives the server.
  void add_to(httplib::Server& server);

 private:
  using Handler = std::function<void(const Visitor&, const httplib::Request&, httplib::Response&)>;

  void add_assets(httplib::Server& server);
  void add_pages(httplib::Server& server);
  void add_forms(httplib::Server& server);
  /// As a handler of httplib, which calls `handler` for a visitor who is known. Others are asked
  /// who they are; what `handler` throws is shown.
  std::function<void(const httplib::Request&, httplib::Response&)> guarded(Handler handler);

  void show(const Visitor& visitor, Frame frame, httplib::Response& response) const;
  void show_queue(const Visitor& visitor, httplib::Response& response);
  void show_jobs(const Visitor& visitor, const httplib::Request& request,
                 httplib::Response& response);
  void show_job(const Visitor& visitor, const std::string& id, httplib::Response& response);
  void show_report(const Visitor& visitor, const std::string& id, httplib::Response& response);

  /// A file that the job has left, but none of its model's.
  void send_artifact(const Visitor& visitor, const httplib::Request& request,
                     httplib::Response& response);

  // Calls of the API; they throw the ApiError of one that is refused.
  v1::Job get_job(const Visitor& visitor, const std::string& id);
  v1::ListJobsResponse list_jobs(const Visitor& visitor, const v1::ListJobsRequest& request);
  std::vector<v1::Job> newest_jobs(const Visitor& visitor, const std::string& state, int count);
  std::string read_log_tail(const Visitor& visitor, const std::string& id);
  /// NOT_FOUND with the reason if it cannot be read.
  Page read_report(const Visitor& visitor, const v1::Job& job);

  /// Does what a form on a job's page asks for; returns the page to go to.
  std::string act(const Visitor& visitor, const httplib::Request& request);
  /// Drains the server, or resumes it.
  void administer(const Visitor& visitor, const httplib::Request& request);
  void sign_in(const httplib::Request& request, httplib::Response& response);

  const WebContext context_;
  Visitors visitors_;
  std::timed_mutex reports_;  ///< one is read at a time: that may take seconds of a core
};

}  // namespace dotresize
