#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "dotresize/v1/jobs.pb.h"
#include "job/remote/localized_job.h"

namespace dotresize {

/// The places elsewhere that the operator lets jobs name.
struct RemoteOptions {
  std::vector<std::string> prefixes;  ///< of URLs; none: nothing
  std::filesystem::path cache;        ///< empty: "remote" in the state directory
  int64_t cache_bytes = RemoteCache().size;
};

/// The URLs that jobs may name, and the cache of their copies. Safe to use from any thread.
class RemotePolicy {
 public:
  /// Nothing.
  RemotePolicy() = default;
  /// Makes the cache, closed to other users. Throws InputError for a prefix that is no URL.
  RemotePolicy(const RemoteOptions& options, const std::filesystem::path& state_dir);

  bool allows_any() const { return !prefixes_.empty(); }
  /// PERMISSION_DENIED for a URL that is not allowed.
  void require(const std::string& field, const std::string& url) const;
  const RemoteCache& cache() const { return cache_; }

 private:
  std::vector<std::string> prefixes_;
  RemoteCache cache_;
};

/// The copies that a job has by now.
RemoteCopies copies_of(const v1::Job& job);

}  // namespace dotresize
