#pragma once

#include <grpcpp/support/status.h>

#include <functional>

#include "server/api_error.h"

namespace dotresize {

/// The status with its google.rpc.Status (ErrorInfo, BadRequest) in grpc-status-details-bin. The
/// message is cut to what fits into a trailer.
grpc::Status to_status(const ApiError& error);

/// Runs the body of an RPC: OK, or the status of the ApiError that it throws. Any other exception
/// is logged and becomes INTERNAL without its text.
grpc::Status answer(const char* method, const std::function<void()>& body);

}  // namespace dotresize
