#include "server/api_error.h"

#include <utility>

namespace dotresize {

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

ApiError job_not_found(const std::string& id) {
  return ApiError(grpc::StatusCode::NOT_FOUND, "JOB_NOT_FOUND", "there is no job '" + id + "'",
                  {{"id", id}});
}

}  // namespace dotresize
