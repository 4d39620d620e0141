#include "server/api/workers_service.h"

#include <fmt/format.h>

#include <cmath>

#include "server/access/access.h"
#include "server/access/call_gate.h"
#include "server/common/api_error.h"
#include "server/common/log_format.h"
#include "server/launch/outcome.h"

namespace dotresize {
namespace {

constexpr size_t kMaxPhase = 64;

}  // namespace

void WorkersService::authenticate(const grpc::ServerContext& context, const std::string& job_id,
                                  int attempt) {
  const std::string token = token_of(context);
  if (!token.empty() && matches_token(token, store_.token_sha256(job_id, attempt))) return;
  throw ApiError(grpc::StatusCode::UNAUTHENTICATED, "BAD_ATTEMPT_TOKEN",
                 "the call does not carry the token of this attempt");
}

grpc::Status WorkersService::Heartbeat(grpc::ServerContext* context,
                                       const v1::HeartbeatRequest* request,
                                       v1::HeartbeatResponse* response) {
  return answer("Heartbeat", [&] {
    const std::string& id = request->job_id();
    authenticate(*context, id, request->attempt());
    const bool wanted = store_.is_wanted(id, request->attempt());
    response->set_stop(!wanted);
    if (!wanted) return;
    heartbeats_.beat(id);  // beat first: storing may wait for another program
    const v1::Progress& progress = request->progress();
    if (progress.phase().size() > kMaxPhase) {
      throw invalid_argument("progress.phase", "is longer than 64 bytes");
    }
    if (!(progress.fraction() >= 0.0 && progress.fraction() <= 1.0)) {
      throw invalid_argument("progress.fraction", "is not in [0, 1]");
    }
    if (!std::isfinite(progress.tokens_per_second()) || !std::isfinite(progress.eta_s())) {
      throw invalid_argument("progress", "holds a number that is not finite");
    }
    if (progress.junctions_done() < 0 || progress.junctions_done() > progress.junctions_total()) {
      throw invalid_argument("progress.junctions_done", "is not from 0 to junctions_total");
    }
    store_.confirm_running(id, request->attempt());
    if (heartbeats_.is_worth_storing(id, progress)) {
      store_.record_progress(id, request->attempt(), progress);
    }
  });
}

grpc::Status WorkersService::ReportFailure(grpc::ServerContext* context,
                                           const v1::ReportFailureRequest* request,
                                           v1::ReportFailureResponse*) {
  return answer("ReportFailure", [&] {
    authenticate(*context, request->job_id(), request->attempt());
    const v1::JobError& given = request->error();
    v1::JobError error =
        to_job_error({given.code(), given.rank(), given.host(), given.phase(), given.message()});
    if (error.code().empty()) throw invalid_argument("error.code", "is required");
    error.set_signal(given.signal());
    store_.record_failure(request->job_id(), request->attempt(), error);
    log_job(spdlog::level::warn, request->job_id(), request->attempt(),
            fmt::format("rank {} reports {}: {}", error.rank(), error.code(), error.message()));
  });
}

}  // namespace dotresize
