#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "client/calls/connection.h"
#include "client/calls/follow.h"
#include "client/display/progress_display.h"

namespace dotresize {

struct FetchRequest {
  std::string id;             ///< of an ended job
  std::filesystem::path dir;  ///< that is to appear
  bool model = false;         ///< the model's directory, in place of what people want to see
};

/// Fetches the files of a job into DIR.partial, which becomes DIR once they are whole and have the
/// hashes that the server lists. What an earlier call has left there is not fetched again. While
/// the server is away it is waited for, as watch_job does. False once `interrupted` says true.
/// Throws InputError if DIR exists, or if DIR.partial is not one of this fetch, and RpcError,
/// DATA_LOSS for a file whose bytes are not those of its hash.
bool fetch_artifacts(Connection& connection, const FetchRequest& request,
                     const std::vector<v1::Artifact>& artifacts, ProgressDisplay& display,
                     const std::function<bool()>& interrupted, const FollowOptions& options = {});

}  // namespace dotresize
