#pragma once

#include <grpcpp/support/status.h>

#include <stdexcept>
#include <string>
#include <vector>

#include "job/spec/job_file.h"

namespace dotresize {

/// Which of docs/cli.md's exit codes a failed call ends the program with.
int exit_code_for(grpc::StatusCode code);

/// The code as gRPC spells it: "INVALID_ARGUMENT".
std::string code_name(grpc::StatusCode code);

/// Whether it may be only a server that goes down, comes up, or is overrun.
bool is_transient(grpc::StatusCode code);

/// The server refused a call, or could not be reached. what() is for people, one line per field
/// that the server objects to.
class RpcError : public std::runtime_error {
 public:
  /// `status` is not OK; `server` is the address, for the message.
  RpcError(const grpc::Status& status, const std::string& server);

  grpc::StatusCode code() const { return code_; }
  /// From google.rpc.BadRequest; empty if the server sent none.
  const std::vector<FieldViolation>& violations() const { return violations_; }

 private:
  grpc::StatusCode code_;
  std::vector<FieldViolation> violations_;
};

}  // namespace dotresize
