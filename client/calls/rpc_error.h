#pragma once

#include <grpcpp/support/status.h>

#include <stdexcept>
#include <string>
#include <vector>

#include "job/spec/validate_spec.h"

namespace dotresize {

/// Exit code of the program after a failed call (docs/cli.md).
int exit_code_for(grpc::StatusCode code);

/// Name of the code as gRPC spells it: "INVALID_ARGUMENT".
std::string code_name(grpc::StatusCode code);

/// True if the call may succeed later: the server is stopping, starting or overloaded.
bool is_transient(grpc::StatusCode code);

/// Error of a call that the server refused, or of a server that could not be reached. what() is for
/// people, with one line per field that the server objects to.
class RpcError : public std::runtime_error {
 public:
  /// `status` is not OK; `server` is the address, for the message.
  RpcError(const grpc::Status& status, const std::string& server);

  /// The same error with another message.
  RpcError(const std::string& message, const RpcError& error)
      : std::runtime_error(message), code_(error.code_), violations_(error.violations_) {}

  /// Error of a stream that should not have ended: `status` may be OK.
  static RpcError of_stream(const grpc::Status& status, const std::string& server) {
    const grpc::Status early(grpc::UNAVAILABLE, "the stream ended early");
    return RpcError(status.ok() ? early : status, server);
  }

  grpc::StatusCode code() const { return code_; }
  /// Violations from google.rpc.BadRequest; empty if the server sent none.
  const std::vector<FieldViolation>& violations() const { return violations_; }

 private:
  grpc::StatusCode code_;
  std::vector<FieldViolation> violations_;
};

}  // namespace dotresize
