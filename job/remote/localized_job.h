#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/files/pinned_directory.h"
#include "dotresize/v1/job.pb.h"
#include "job/remote/transfer.h"

namespace dotresize {

/// What a job reads that is not on this machine.
struct RemoteInput {
  std::string key;  ///< "model.path"; the first one that names it
  std::string url;
  FetchKind kind = FetchKind::kFile;
};

/// Each URL once, in the order of the keys. `for_plan`: of a model all but its weights.
std::vector<RemoteInput> remote_inputs(const v1::JobSpec& spec, bool for_plan = false);

/// Copies by their URLs.
using RemoteCopies = std::map<std::string, TransferResult>;

/// Puts the copies in the place of URLs, and for an output that is pushed where it is made first;
/// reports will name the URLs (model.origin, output.destination). URLs without a copy stay.
void localize(v1::JobSpec& spec, const RemoteCopies& copies, const RemoteCache& cache);

/// The same as changes of a job file (job/spec/job_changes.h).
std::vector<std::string> changes_between(const v1::JobSpec& given, const v1::JobSpec& localized);

/// Keeps a copy in the cache for the object's lifetime.
class HeldCopy {
 public:
  /// Throws TransferError if it is gone already.
  explicit HeldCopy(const std::filesystem::path& copy);

 private:
  PinnedDirectory entry_;
};

}  // namespace dotresize
