#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/files/confinement.h"
#include "base/files/output_owner.h"
#include "dotresize/v1/jobs.pb.h"
#include "job/remote/localized_job.h"
#include "server/store/job_records.h"

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

/// Policy on the paths that jobs may name.
class PathPolicy {
 public:
  /// `roots`: directories that must contain all paths of jobs; empty: anywhere is allowed.
  /// `state_dir`: no job may read or write there. Throws InputError for a root that is not a
  /// directory.
  PathPolicy(const std::vector<std::filesystem::path>& roots,
             const std::filesystem::path& state_dir, RemotePolicy remote = {});

  /// Returns the spec with all paths resolved, without symbolic links, so that what was checked is
  /// what is opened. Does not change URLs. Throws PERMISSION_DENIED for a path outside the roots or
  /// a URL that is not allowed; RESOURCE_EXHAUSTED for more than the limits; INVALID_ARGUMENT for a
  /// path that collides with the state directory, or an output that collides with an input.
  v1::JobSpec resolve(const v1::JobSpec& spec) const;

  /// Directories that the server may read from on behalf of a job.
  const Confinement& confinement() const { return confinement_; }
  const RemotePolicy& remote() const { return remote_; }

 private:
  void check(const std::string& field, const std::string& given,
             const std::filesystem::path& actual) const;

  std::vector<std::filesystem::path> roots_;
  Confinement confinement_;
  std::filesystem::path state_dir_;
  RemotePolicy remote_;
};

/// Returns the claims of a job whose spec is from resolve(): inputs, the output, and the names
/// beside the output that are used while writing. A URL is claimed without its revision.
std::vector<PathClaim> claims_of(const v1::JobSpec& resolved);

/// Throws PERMISSION_DENIED if a path that the claims write is, or lies in, a directory that the
/// rights do not cover.
void require_ownership(const std::vector<PathClaim>& claims, const OutputRights& rights);

/// Returns the copies of remote inputs that the job has so far.
RemoteCopies copies_of(const v1::Job& job);

}  // namespace dotresize
