#pragma once

#include <functional>
#include <string>
#include <vector>

#include "server/access/call_gate.h"
#include "server/api/jobs_service.h"
#include "server/http/http_server.h"
#include "server/launch/heartbeats.h"
#include "server/store/job_store.h"
#include "server/store/state_dir.h"
#include "server/web/frame.h"
#include "server/web/job_pages.h"
#include "server/web/visitors.h"

namespace dotresize {

/// Dependencies of the pages; all of them outlive the pages.
struct WebContext {
  JobsService& jobs;
  CallGate& gate;
  const Access& access;
  JobStore& store;
  const StateDir& state;
  const Heartbeats& heartbeats;
  std::function<std::vector<HealthCheck>()> health;
};

/// The server's web pages: queue, jobs, one job, its report. Everything they show or do is an API
/// call in the name of the signed-in caller. Without tokens every visitor may do everything, as
/// with the API. Thread-safe.
class WebPages {
 public:
  /// `host_names` and `tls`: see Visitors.
  WebPages(const WebContext& context, const std::vector<std::string>& host_names, bool tls);

  /// Adds all pages. This object outlives `server`.
  void add_to(httplib::Server& server);

 private:
  using Handler = std::function<void(const Visitor&, const httplib::Request&, httplib::Response&)>;

  void add_forms(httplib::Server& server);
  /// Wraps `handler` as an httplib handler that calls it for a known visitor. Other visitors get
  /// the sign-in page. Errors that `handler` throws are shown.
  std::function<void(const httplib::Request&, httplib::Response&)> guarded(Handler handler);

  void show(const Visitor& visitor, Frame frame, httplib::Response& response) const;
  void show_queue(const Visitor& visitor, httplib::Response& response);
  void show_job(const Visitor& visitor, const std::string& id, httplib::Response& response);

  // API calls; they throw the ApiError of a refused call.
  v1::Job get_job(const Visitor& visitor, const std::string& id);
  std::vector<v1::Job> newest_jobs(const Visitor& visitor, const std::string& state, int count);
  /// Throws NOT_FOUND with the reason if the report cannot be read, RESOURCE_EXHAUSTED if that
  /// takes too much.
  Page read_report(const Visitor& visitor, const v1::Job& job);

  /// Performs the action of a form on a job's page; returns the path of the page to show next.
  std::string act(const Visitor& visitor, const httplib::Request& request);

  const WebContext context_;
  Visitors visitors_;
};

}  // namespace dotresize
