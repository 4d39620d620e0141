#pragma once

#include <grpcpp/server_context.h>

#include <string>

namespace dotresize {

/// Returns the call's metadata `traceparent`; empty if it is missing or malformed.
std::string traceparent_of(const grpc::ServerContextBase& context);

}  // namespace dotresize
