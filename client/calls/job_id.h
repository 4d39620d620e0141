#pragma once

#include <string>

#include "client/calls/connection.h"

namespace dotresize {

/// True if `text` has the form of a complete job id.
bool is_job_id(const std::string& text);

/// Finds the one job whose id begins with `text`, with or without the prefix "j-". If there is
/// none, returns `text`, and the server reports the error. Throws InputError with the candidates if
/// there are several, and RpcError.
std::string find_job_id(Connection& connection, const std::string& text);

}  // namespace dotresize
