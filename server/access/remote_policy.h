#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "dotresize/v1/jobs.pb.h"
#include "job/remote/localized_job.h"

namespace dotresize {

/// Remote URLs that the operator lets jobs name.
struct RemoteOptions {
  std::vector<std::string> prefixes;  ///< URL prefixes; empty: no URLs are allowed
  std::filesystem::path cache;        ///< cache directory; empty: "remote" in the state directory
  int64_t cache_bytes = RemoteCache().size;
};

/// Policy on the URLs that jobs may name, and the cache of their copies. Thread-safe.
class RemotePolicy {
 public:
  /// Allows no URLs.
  RemotePolicy() = default;
  /// Creates the cache if there are prefixes; a new one is closed to other users. Throws InputError
  /// for a prefix that is not a URL.
  RemotePolicy(const RemoteOptions& options, const std::filesystem::path& state_dir);

  bool allows_any() const { return !prefixes_.empty(); }
  /// Throws PERMISSION_DENIED for a URL that is not allowed.
  void require(const std::string& field, const std::string& url) const;
  const RemoteCache& cache() const { return cache_; }

 private:
  std::vector<std::string> prefixes_;
  RemoteCache cache_;
};

/// Returns the copies of remote inputs that the job has so far.
RemoteCopies copies_of(const v1::Job& job);

}  // namespace dotresize
