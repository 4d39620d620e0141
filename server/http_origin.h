#pragma once

#include <string>

#include "server/call_gate.h"

namespace httplib {
struct Request;
}

namespace dotresize {

/// Who sends this request, and the token of its header "Authorization: Bearer TOKEN".
CallOrigin origin_of(const httplib::Request& request);

/// The HTTP status that says the same.
int http_status(grpc::StatusCode code);

}  // namespace dotresize
