#pragma once

#include <grpcpp/support/status.h>

#include <stdexcept>
#include <string>
#include <vector>

#include "job/spec/validate_spec.h"

namespace dotresize {

/// Which of docs/cli.md's exit codes a failed call ends the program with.
int exit_code_for(grpc::StatusCode code);

/// The code as gRPC spells it: "INVALID_ARGUMENT".
std::string code_name(grpc::StatusCode code);

/// Whether the call may succeed later: the server is stopping, starting or overloaded.
bool is_transient(grpc::StatusCode code);

/// The server refused a call, or could not be reached. what() is for people, one line per field
/// that the server objects to.
class RpcError : public std::runtime_error {
 public:
  /// `status` is not OK; `server` is the address, for the message.
  RpcError(const grpc::Status& status, const std::string& server);

  /// The same error in other words.
  RpcError with_message(const std::string& message) const;

  grpc::StatusCode code() const { return code_; }
  /// From google.rpc.BadRequest; empty if the server sent none.
  const std::vector<FieldViolation>& violations() const { return violations_; }

 private:
  RpcError(const std::string& message, grpc::StatusCode code,
           const std::vector<FieldViolation>& violations)
      : std::runtime_error(message), code_(code), violations_(violations) {}

  grpc::StatusCode code_;
  std::vector<FieldViolation> violations_;
};

}  // namespace dotresize
