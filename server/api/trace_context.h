#pragma once

#include <grpcpp/server_context.h>

#include <string>

namespace dotresize {

/// The call's metadata `traceparent`; empty if it has none or a malformed one, which is ignored.
std::string traceparent_of(const grpc::ServerContextBase& context);

}  // namespace dotresize
