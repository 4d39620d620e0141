#include "server/web/web_pages.h"

#include <httplib.h>

#include <ctime>
#include <utility>

#include "base/errors.h"
#include "job/page/page.h"
#include "job/status/job_rows.h"
#include "server/common/api_error.h"
#include "server/http/http_server.h"
#include "server/store/files.h"
#include "server/store/job_output.h"
#include "server/web/answers.h"
#include "server/web/job_pages.h"

namespace dotresize {
namespace {

using httplib::Request;
using httplib::Response;

constexpr int kShownLaunched = 100;
constexpr int kShownQueued = 25;
constexpr int kShownEnded = 10;

/// Throws the status as an ApiError unless it is OK.
void require(const grpc::Status& status) {
  if (!status.ok()) throw ApiError(status.error_code(), "", status.error_message());
}

}  // namespace

WebPages::WebPages(const WebContext& context, const std::vector<std::string>& host_names, bool tls)
    : context_(context), visitors_(context.gate, context.access, host_names, tls) {}

void WebPages::add_to(httplib::Server& server) {
  for (const Asset& asset : assets()) {
    server.Get(asset.path,
               [&asset](const Request&, Response& response) { send_asset(response, asset); });
  }
  const auto get = [&](const char* path, Handler handler) {
    server.Get(path, guarded(std::move(handler)));
  };
  get("/", [this](const Visitor& visitor, const Request&, Response& response) {
    show_queue(visitor, response);
  });
  get("/jobs", [this](const Visitor& visitor, const Request& request, Response& response) {
    const JobsPageQuery query{request.get_param_value("state"), request.get_param_value("name"),
                              request.get_param_value("owner"), request.get_param_value("page")};
    v1::ListJobsResponse found;
    require(context_.jobs.ListJobs(visitor.origin, query.request(), found));
    const std::string body = jobs_page_html(query, found, std::time(nullptr));
    show(visitor, {.title = "Jobs", .body = body, .live = true}, response);
  });
  get(R"(/jobs/([A-Za-z0-9-]{1,64}))",
      [this](const Visitor& visitor, const Request& request, Response& response) {
        show_job(visitor, request.matches[1], response);
      });
  get(R"(/jobs/([A-Za-z0-9-]{1,64})/report)",
      [this](const Visitor& visitor, const Request& request, Response& response) {
        const v1::Job job = get_job(visitor, request.matches[1]);
        if (!may_have_report(job)) {
          throw ApiError(grpc::StatusCode::NOT_FOUND, "NO_REPORT",
                         "job " + job.id() + " has no report: it is " + state_name(job));
        }
        send_page(response, page_html(read_report(visitor, job)), 200, DocumentKind::kReport);
      });
  // A file that the job has left, unless it belongs to the model itself.
  get(R"(/jobs/([A-Za-z0-9-]{1,64})/files/([A-Za-z0-9._/-]{1,64}))",
      [this](const Visitor& visitor, const Request& request, Response& response) {
        require(context_.jobs.ReadArtifact(
            visitor.origin, request.matches[1], request.matches[2],
            [&](ArtifactFile file) { send_file(response, std::move(file)); }));
      });
  add_forms(server);
}

void WebPages::add_forms(httplib::Server& server) {
  const auto post = [&](const char* path, Handler handler) {
    server.Post(path, guarded(std::move(handler)));
  };
  post(R"(/jobs/([A-Za-z0-9-]{1,64})/(cancel|resume|restart|delete))",
       [this](const Visitor& visitor, const Request& request, Response& response) {
         send_to(response, act(visitor, request));
       });
  post(R"(/server/(drain|resume))",
       [this](const Visitor& visitor, const Request& request, Response& response) {
         const bool drain = request.matches[1] == "drain";
         require(visitors_.check_form(drain ? "DrainServer" : "ResumeServer", visitor, /*id=*/"",
                                      request));
         v1::ServerInfo server_info;
         require(context_.jobs.SetDrained(visitor.origin, drain, server_info));
         send_to(response, "/");
       });
  server.Post("/sign-in", [this](const Request& request, Response& response) {
    const std::string wanted = request.get_param_value("next");
    const std::string next = is_page(wanted) ? wanted : "/";
    if (context_.access.open_to_all) return send_to(response, next);
    const grpc::Status status = visitors_.sign_in(request, response);
    if (status.ok()) return send_to(response, next);
    send_page(response, frame_html(sign_in_frame(next, status.error_message())),
              http_status(status.error_code()));
  });
  post("/sign-out", [this](const Visitor& visitor, const Request& request, Response& response) {
    require(visitors_.check_form("SignOut", visitor, "", request));
    visitors_.sign_out(visitor, request, response);
    send_to(response, "/");
  });
}

std::function<void(const Request&, Response&)> WebPages::guarded(Handler handler) {
  return [this, handler = std::move(handler)](const Request& request, Response& response) {
    const grpc::Status status = answer(request.path.c_str(), [&] {
      if (const auto visitor = visitors_.find(request)) return handler(*visitor, request, response);
      response.set_header("WWW-Authenticate", "Bearer");
      const std::string next = is_page(request.path) ? request.path : "/";
      send_page(response, frame_html(sign_in_frame(next, "")), 401);
    });
    if (status.ok()) return;
    const int code = refuse(status, response);
    const char* heading = code == 404 ? "Not found" : "Not done";
    send_page(response, frame_html(message_frame(heading, status.error_message())), code);
  };
}

void WebPages::show(const Visitor& visitor, Frame frame, Response& response) const {
  if (!visitor.session.empty()) {
    frame.caller = visitor.caller.name + " (" + role_name(visitor.caller.role) + ")";
    frame.form_token = visitor.form_token;
  }
  send_page(response, frame_html(frame));
}

void WebPages::show_queue(const Visitor& visitor, Response& response) {
  QueuePageView view;
  require(context_.jobs.GetServerInfo(visitor.origin, view.server));
  for (const HealthCheck& check : context_.health()) {
    if (!check.verdict) view.faults.push_back(check.part + ": " + check.verdict.fault());
  }
  view.launched = newest_jobs(visitor, "running", kShownLaunched);
  require(context_.jobs.ListQueue(visitor.origin, kShownQueued, view.queued));
  view.ended = newest_jobs(visitor, "ended", kShownEnded);
  if (visitor.caller.role == Role::kAdmin) view.form_token = visitor.form_token;
  show(visitor,
       {.title = "Queue",
        .body = queue_page_html(view, std::time(nullptr)),
        .state = view.server.drained() ? "drained" : "",
        .live = true},
       response);
}

void WebPages::show_job(const Visitor& visitor, const std::string& id, Response& response) {
  JobPageView view{.job = get_job(visitor, id)};
  const v1::Job& job = view.job;
  if (job.state() == v1::Job::RUNNING) {
    view.silence =
        std::chrono::duration_cast<std::chrono::seconds>(context_.heartbeats.silence(id));
  }
  require(context_.gate.serve(
      "GetLogs", visitor.origin, Role::kRead, id, [&](const Caller&, const std::string&) {
        view.log_tail = read_tail(context_.state.log(id), 0, kShownLogBytes);
      }));
  view.has_report_page = may_have_report(job);
  if (view.has_report_page && has_ended(job.state())) {
    try {
      view.report = read_report(visitor, job);
    } catch (const ApiError& error) {
      view.report_fault = std::string("The report cannot be shown: ") + error.what();
      view.has_report_page = false;
    }
  }
  if (may_change(visitor.caller, job.owner())) view.form_token = visitor.form_token;
  // The page's forms depend on the job's state and attempt.
  show(visitor,
       {.title = job.spec().name().empty() ? job.id() : job.spec().name(),
        .body = job_page_html(view, std::time(nullptr)),
        .state = state_name(job) + " " + std::to_string(job.attempt()),
        .live = !has_ended(job.state()),
        .report = view.report ? view.report->data : ""},
       response);
}

v1::Job WebPages::get_job(const Visitor& visitor, const std::string& id) {
  v1::GetJobRequest request;
  request.set_id(id);
  v1::Job job;
  require(context_.jobs.GetJob(visitor.origin, request, job));
  return job;
}

std::vector<v1::Job> WebPages::newest_jobs(const Visitor& visitor, const std::string& state,
                                           int count) {
  v1::ListJobsRequest request = JobsPageQuery{.state = state}.request();
  request.set_page_size(count);
  v1::ListJobsResponse found;
  require(context_.jobs.ListJobs(visitor.origin, request, found));
  return {found.jobs().begin(), found.jobs().end()};
}

Page WebPages::read_report(const Visitor& visitor, const v1::Job& job) {
  Page page;
  require(context_.gate.serve(
      "GetReport", visitor.origin, Role::kRead, job.id(), [&](const Caller&, const std::string&) {
        try {
          page = read_report_page(job, reported_in(job, context_.state.job(job.id()),
                                                   context_.store.output_of(job.id())));
        } catch (const InputError& error) {
          throw ApiError(grpc::StatusCode::NOT_FOUND, "NO_REPORT", error.what());
        }
      }));
  return page;
}

std::string WebPages::act(const Visitor& visitor, const Request& request) {
  const std::string id = request.matches[1];
  const std::string verb = request.matches[2];
  const char* method = verb == "cancel"   ? "CancelJob"
                       : verb == "delete" ? "DeleteJob"
                                          : "ResumeJob";
  require(visitors_.check_form(method, visitor, id, request));
  v1::Job job;
  if (verb == "delete") {
    v1::DeleteJobRequest call;
    call.set_id(id);
    require(context_.jobs.DeleteJob(visitor.origin, call));
    return "/";
  }
  if (verb == "cancel") {
    v1::CancelJobRequest call;
    call.set_id(id);
    require(context_.jobs.CancelJob(visitor.origin, call, job));
  } else {
    v1::ResumeJobRequest call;
    call.set_id(id);
    call.set_fresh(verb == "restart");
    require(context_.jobs.ResumeJob(visitor.origin, call, job));
  }
  return "/jobs/" + id;
}

}  // namespace dotresize
