#pragma once

#include <string>

#include "server/access/call_gate.h"

namespace httplib {
struct Request;
struct Response;
}  // namespace httplib

namespace dotresize {

/// Who sends this request, and the token of its header "Authorization: Bearer TOKEN".
CallOrigin origin_of(const httplib::Request& request);

/// The HTTP status that says the same.
int http_status(grpc::StatusCode code);

/// Sets the HTTP status of a call that is refused, which it returns, and the headers that go with
/// it.
int refuse(const grpc::Status& status, httplib::Response& response);

}  // namespace dotresize
