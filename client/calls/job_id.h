#pragma once

#include <string>

#include "client/calls/connection.h"

namespace dotresize {

/// Whether `text` has the form of a job's whole id.
bool is_job_id(const std::string& text);

/// The id of the one job whose id begins with `text`, which may lack the "j-" of all of them;
/// `text` itself if there is none, for the server to say so. Throws InputError with the candidates
/// if there are several, RpcError.
std::string find_job_id(Connection& connection, const std::string& text);

}  // namespace dotresize
