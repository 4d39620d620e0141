#pragma once

#include <grpcpp/support/status.h>

#include <chrono>
#include <functional>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/errors.h"
#include "job/spec/validate_spec.h"

namespace dotresize {

/// Why a call of the API is refused. Thrown anywhere below a service's method, turned
/// into a grpc::Status by `answer`.
class ApiError : public std::runtime_error {
 public:
  ApiError(grpc::StatusCode code, std::string reason, const std::string& message,
           std::map<std::string, std::string> metadata = {});

  grpc::StatusCode code;
  std::string reason;  ///< UPPER_SNAKE_CASE, google.rpc.ErrorInfo
  std::map<std::string, std::string> metadata;
  std::vector<FieldViolation> violations;  ///< google.rpc.BadRequest; INVALID_ARGUMENT only
  std::chrono::seconds retry_after{0};     ///< google.rpc.RetryInfo; 0: none
};

/// INVALID_ARGUMENT whose message lists the violations, which must not be empty.
ApiError invalid_argument(std::vector<FieldViolation> violations);
ApiError invalid_argument(const std::string& field, const std::string& description);
/// Of the field that the error names, else of this one.
ApiError invalid_argument(const InputError& error, const std::string& default_field);

/// An error that may be gone by then.
ApiError try_again(grpc::StatusCode code, const std::string& reason, const std::string& message,
                   std::chrono::seconds retry_after = std::chrono::seconds(2));

ApiError job_not_found(const std::string& id);

/// Runs the body of an RPC: OK, or the status of the ApiError that it throws, with a
/// google.rpc.Status (ErrorInfo, BadRequest) in grpc-status-details-bin. The message is cut to what
/// fits into a trailer. If the job table is locked or its disk full, UNAVAILABLE. Any other
/// exception is logged and becomes INTERNAL without its text.
grpc::Status answer(const char* method, const std::function<void()>& body);

}  // namespace dotresize
