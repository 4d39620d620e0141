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
  std::string id;             ///< id of an ended job
  std::filesystem::path dir;  ///< directory to create
  bool model = false;         ///< false: no files of the model itself
};

/// Fetches the files of a job into DIR.partial, and renames it to DIR once all files are complete
/// and have the hashes that the server lists. Files left there by an earlier call are not fetched
/// again. Waits while the server is away, like watch_job. Returns false once `interrupted` returns
/// true. Throws InputError if DIR exists or if DIR.partial belongs to another fetch, and RpcError,
/// with DATA_LOSS for a file whose bytes do not match its hash.
bool fetch_artifacts(Connection& connection, const FetchRequest& request,
                     const std::vector<v1::Artifact>& artifacts, ProgressDisplay& display,
                     const std::function<bool()>& interrupted, const FollowOptions& options = {});

}  // namespace dotresize
