#include "client/calls/rpc_error.h"

#include "base/process/program.h"
#include "base/text/printable.h"
#include "google/rpc/code.pb.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"

namespace dotresize {
namespace {

std::vector<FieldViolation> violations_of(const grpc::Status& status) {
  std::vector<FieldViolation> violations;
  google::rpc::Status details;
  if (!details.ParseFromString(status.error_details())) return violations;
  for (const google::protobuf::Any& detail : details.details()) {
    google::rpc::BadRequest bad_request;
    if (!detail.UnpackTo(&bad_request)) continue;
    for (const auto& violation : bad_request.field_violations()) {
      violations.push_back({violation.field(), violation.description()});
    }
  }
  return violations;
}

std::string message_for(const grpc::Status& status, const std::string& server) {
  const std::string reason = status.error_message();
  switch (status.error_code()) {
    case grpc::UNAVAILABLE:
      if (!status.error_details().empty()) break;  // sent by the server itself
      if (reason.find("failed to connect") != std::string::npos &&
          reason.find("Socket closed") != std::string::npos) {
        return server +
               " accepts the connection and closes it: a server with TLS needs --tls-ca or "
               "DOTRESIZE_TLS_CA\n  (" +
               reason + ")";
      }
      if (reason.find("handshake") != std::string::npos) {
        return "the TLS handshake with " + server +
               " failed: does its certificate fit --tls-ca and its name, and does it use TLS?\n  "
               "(" +
               reason + ")";
      }
      return "no server at " + server +
             ": start dotresize-server, or name another with --server or DOTRESIZE_SERVER\n  (" +
             reason + ")";
    case grpc::DEADLINE_EXCEEDED:
      return "the server at " + server + " did not answer in time";
    case grpc::UNIMPLEMENTED:
      return "the server at " + server + " does not know this call: is it a dotresize-server?";
    default:
      break;
  }
  const std::vector<FieldViolation> violations = violations_of(status);
  if (violations.empty()) return reason.empty() ? code_name(status.error_code()) : reason;
  std::string message = "the server refused the request";
  for (const FieldViolation& violation : violations) {
    message += "\n  " + violation.field + ": " + violation.description;
  }
  return message;
}

}  // namespace

// docs/cli.md has this table for people.
int exit_code_for(grpc::StatusCode code) {
  switch (code) {
    case grpc::INVALID_ARGUMENT:
    case grpc::NOT_FOUND:
    case grpc::ALREADY_EXISTS:
    case grpc::FAILED_PRECONDITION:
    case grpc::OUT_OF_RANGE:
      return kExitBadData;
    case grpc::PERMISSION_DENIED:
    case grpc::UNAUTHENTICATED:
      return kExitDenied;
    case grpc::RESOURCE_EXHAUSTED:
    case grpc::ABORTED:
      return kExitTryAgain;
    default:
      return kExitUnavailable;
  }
}

std::string code_name(grpc::StatusCode code) {
  const bool known = google::rpc::Code_IsValid(code);
  return google::rpc::Code_Name(known ? static_cast<google::rpc::Code>(code)
                                      : google::rpc::UNKNOWN);
}

bool is_transient(grpc::StatusCode code) {
  switch (code) {
    case grpc::UNAVAILABLE:
    case grpc::DEADLINE_EXCEEDED:
    case grpc::RESOURCE_EXHAUSTED:
    case grpc::CANCELLED:
    case grpc::INTERNAL:
      return true;
    default:
      return false;
  }
}

RpcError::RpcError(const grpc::Status& status, const std::string& server)
    : std::runtime_error(printable_lines(message_for(status, server))),
      code_(status.error_code()),
      violations_(violations_of(status)) {}

}  // namespace dotresize
