#pragma once

#include <grpcpp/server_context.h>
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

/// Reason an API call is refused. Thrown anywhere below a service's method; `answer` turns it into
/// a grpc::Status.
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

/// Returns INVALID_ARGUMENT whose message lists the violations. `violations` must not be empty.
ApiError invalid_argument(std::vector<FieldViolation> violations);
ApiError invalid_argument(const std::string& field, const std::string& description);
/// Uses the field that the error names, or `default_field` if it names none.
ApiError invalid_argument(const InputError& error, const std::string& default_field);

/// Error of a temporary condition; tells the client to retry after `retry_after`.
ApiError try_again(grpc::StatusCode code, const std::string& reason, const std::string& message,
                   std::chrono::seconds retry_after = std::chrono::seconds(2));

ApiError job_not_found(const std::string& id);

/// Returns true if the caller has gone. May handle what other connections have sent meanwhile, as
/// gRPC does on every thread that asks it something.
bool is_cancelled(const grpc::ServerContextBase& call);

/// Runs the body of an RPC. Returns OK, or the status of the ApiError that it throws, with a
/// google.rpc.Status (ErrorInfo, BadRequest, RetryInfo) in grpc-status-details-bin. Cuts the
/// message to what fits into a trailer. Returns UNAVAILABLE if the job table is locked or its disk
/// is full or failing. Logs any other exception and returns INTERNAL without its text.
grpc::Status answer(const char* method, const std::function<void()>& body);

}  // namespace dotresize
