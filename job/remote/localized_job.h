#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/files/directory.h"
#include "dotresize/v1/job.pb.h"
#include "job/remote/transfer.h"

namespace dotresize {

/// An input of a job that is not on this machine.
struct RemoteInput {
  std::string key;  ///< first key that names the URL: "model.path"
  std::string url;
  FetchKind kind = FetchKind::kFile;
};

/// Returns each URL once, in the order of the keys. `for_plan`: without the model's weights.
std::vector<RemoteInput> remote_inputs(const v1::JobSpec& spec, bool for_plan = false);

/// Local copies by URL.
using RemoteCopies = std::map<std::string, TransferResult>;

/// Replaces URLs by their local copies, and the URL of a pushed output by the local directory in
/// which it is made first. Reports will name the URLs (model.origin, output.destination). URLs
/// without a copy stay.
void localize(v1::JobSpec& spec, const RemoteCopies& copies, const RemoteCache& cache);

/// Returns the same edits as changes of a job file (job/spec/job_file.h).
std::vector<std::string> changes_between(const v1::JobSpec& given, const v1::JobSpec& localized);

/// Keeps a copy in the cache for the object's lifetime.
class HeldCopy {
 public:
  /// Throws TransferError if the copy no longer exists.
  explicit HeldCopy(const std::filesystem::path& copy);

 private:
  PinnedDirectory entry_;
};

}  // namespace dotresize
