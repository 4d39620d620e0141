#include "server/common/api_error.h"

#include <SQLiteCpp/Exception.h>
#include <spdlog/spdlog.h>
#include <sqlite3.h>

#include <algorithm>
#include <new>
#include <utility>

#include "base/text/printable.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"
#include "server/common/memory_wait.h"

namespace dotresize {
namespace {

// gRPC drops a call whose metadata exceed 8 KiB; message and details share that limit.
constexpr size_t kMaxMessage = 1500;
constexpr size_t kMaxDescription = 300;
constexpr size_t kMaxField = 100;
constexpr size_t kMaxViolations = 8;

grpc::Status to_status(const ApiError& error) {
  google::rpc::Status details;
  details.set_code(error.code);
  details.set_message(printable(error.what(), kMaxMessage));
  google::rpc::ErrorInfo info;
  info.set_reason(error.reason);
  info.set_domain("dotresize");
  for (const auto& [key, value] : error.metadata) {
    (*info.mutable_metadata())[key] = printable(value, kMaxField);
  }
  details.add_details()->PackFrom(info);
  if (!error.violations.empty()) {
    google::rpc::BadRequest request;
    for (size_t i = 0; i < std::min(error.violations.size(), kMaxViolations); ++i) {
      auto* violation = request.add_field_violations();
      violation->set_field(printable(error.violations[i].field, kMaxField));
      violation->set_description(printable(error.violations[i].description, kMaxDescription));
    }
    details.add_details()->PackFrom(request);
  }
  if (error.retry_after.count() > 0) {
    google::rpc::RetryInfo retry;
    retry.mutable_retry_delay()->set_seconds(error.retry_after.count());
    details.add_details()->PackFrom(retry);
  }
  return grpc::Status(error.code, details.message(), details.SerializeAsString());
}

}  // namespace

ApiError::ApiError(grpc::StatusCode code_, std::string reason_, const std::string& message,
                   std::map<std::string, std::string> metadata_)
    : std::runtime_error(message),
      code(code_),
      reason(std::move(reason_)),
      metadata(std::move(metadata_)) {}

ApiError invalid_argument(std::vector<FieldViolation> violations) {
  std::string message;
  for (const FieldViolation& violation : violations) {
    if (!message.empty()) message += "; ";
    message += violation.field + ": " + violation.description;
  }
  ApiError error(grpc::StatusCode::INVALID_ARGUMENT, "INVALID_FIELD", message);
  error.violations = std::move(violations);
  return error;
}

ApiError invalid_argument(const std::string& field, const std::string& description) {
  return invalid_argument(std::vector<FieldViolation>{{field, description}});
}

ApiError invalid_argument(const InputError& error, const std::string& default_field) {
  return invalid_argument(error.field().empty() ? default_field : error.field(),
                          error.description());
}

ApiError try_again(grpc::StatusCode code, const std::string& reason, const std::string& message,
                   std::chrono::seconds retry_after) {
  ApiError error(code, reason, message);
  error.retry_after = retry_after;
  return error;
}

ApiError job_not_found(const std::string& id) {
  return ApiError(grpc::StatusCode::NOT_FOUND, "JOB_NOT_FOUND", "there is no job '" + id + "'",
                  {{"id", id}});
}

bool is_cancelled(const grpc::ServerContextBase& call) {
  const RefusesWithoutMemory waits(false);
  return call.IsCancelled();
}

grpc::Status answer(const char* method, const std::function<void()>& body) {
  std::string fault;
  try {
    const RefusesWithoutMemory refuses;
    body();
    return grpc::Status::OK;
  } catch (const ApiError& error) {
    return to_status(error);
  } catch (const SQLite::Exception& error) {
    fault = std::string("the job table: ") + error.what();
    // After one of these the same call may succeed later.
    constexpr int kPassing[] = {SQLITE_BUSY,     SQLITE_LOCKED, SQLITE_NOMEM,   SQLITE_FULL,
                                SQLITE_READONLY, SQLITE_IOERR,  SQLITE_CANTOPEN};
    if (std::ranges::find(kPassing, error.getErrorCode()) != std::end(kPassing)) {
      spdlog::error("{} failed: {}", method, fault);
      return to_status(
          try_again(grpc::StatusCode::UNAVAILABLE, "STORE_UNAVAILABLE",
                    "the job table cannot be used at the moment: another program has locked it, or "
                    "its disk is full or failing; nothing was changed"));
    }
  } catch (const std::bad_alloc&) {
    spdlog::error("{} failed: no memory is left", method);
    return to_status(try_again(grpc::StatusCode::RESOURCE_EXHAUSTED, "SERVER_BUSY",
                               "the server has no memory left for this; try again later"));
  } catch (const std::exception& error) {
    fault = error.what();
  }
  spdlog::error("{} failed: {}", method, fault);
  return to_status(ApiError(grpc::StatusCode::INTERNAL, "INTERNAL",
                            "the server failed to do this; its log says why"));
}

}  // namespace dotresize
