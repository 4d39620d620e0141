#pragma once

#include <functional>
#include <string>

#include "client/connection.h"

namespace dotresize {

/// Reads a job's log from its beginning and hands it to `print` piece by piece. `follow`: until the
/// job has ended, resuming where it was when the server comes back. Throws RpcError.
void read_logs(Connection& connection, const std::string& id, bool follow,
               const std::function<void(const std::string&)>& print);

}  // namespace dotresize
