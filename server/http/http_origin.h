#pragma once

#include <string>

#include "server/access/call_gate.h"

namespace httplib {
struct Request;
struct Response;
}  // namespace httplib

namespace dotresize {

/// Sender of the request, and the token of its header "Authorization: Bearer TOKEN".
CallOrigin origin_of(const httplib::Request& request);

/// HTTP status for a gRPC status code.
int http_status(grpc::StatusCode code);

/// Sets the HTTP status of a refused call and the headers that belong to it. Returns the status.
int refuse(const grpc::Status& status, httplib::Response& response);

}  // namespace dotresize
