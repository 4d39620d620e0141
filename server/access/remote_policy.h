#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "dotresize/v1/jobs.pb.h"
#include "job/remote/localized_job.h"

namespace dotresize {

/// Policy on the URLs that jobs may name, and the cache of their copies. Thread-safe.
class RemotePolicy {
 public:
  /// Allows no URLs.
  RemotePolicy() = default;
  /// `prefixes`: URL prefixes that the operator lets jobs name; empty: none. If there are any,
  /// creates the cache `remote` in the state directory, closed to other users; one that exists, or
  /// a symbolic link to a directory, is used. Copies may take three quarters of its disk: outputs
  /// lie there too until they are pushed. Throws InputError for a prefix that is not a URL.
  RemotePolicy(std::vector<std::string> prefixes, const std::filesystem::path& state_dir);

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
