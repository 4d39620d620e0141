#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/files/confinement.h"
#include "dotresize/v1/job.pb.h"
#include "server/access/remote_policy.h"

namespace dotresize {

/// A path without symbolic links, or a URL, that a job reads or writes, from its admission to its
/// end.
struct PathClaim {
  std::string field;  ///< "model.path"
  std::string path;
  bool writes = false;
};

/// Which paths jobs may name.
class PathPolicy {
 public:
  /// `roots`: directories in which all paths of jobs must lie; none: anywhere. `state_dir`: no job
  /// may read or write there. Throws InputError for a root that is no directory.
  PathPolicy(const std::vector<std::filesystem::path>& roots,
             const std::filesystem::path& state_dir, RemotePolicy remote = {});

  /// The spec with every path as it is now, without symbolic links: what was checked is what is
  /// opened. PERMISSION_DENIED if one lies outside the roots, INVALID_ARGUMENT if one collides
  /// with the state directory or if the output collides with an input.
  /// URLs stay; PERMISSION_DENIED if the operator does not allow one.
  v1::JobSpec resolve(const v1::JobSpec& spec) const;

  /// For what is read meanwhile.
  const Confinement& confinement() const { return confinement_; }
  const RemotePolicy& remote() const { return remote_; }

 private:
  void check(const std::string& field, const std::string& given,
             const std::filesystem::path& actual) const;
  /// The files of a model may be links, as in the cache of the Hugging Face hub.
  void check_links_in(const std::string& model) const;

  std::vector<std::filesystem::path> roots_;
  Confinement confinement_;
  std::filesystem::path state_dir_;
  RemotePolicy remote_;
};

/// What a job with this spec, of resolve(), claims: inputs, the output, and the names beside it
/// that the job uses while it writes; of a URL the place, at all revisions.
std::vector<PathClaim> claims_of(const v1::JobSpec& resolved);

}  // namespace dotresize
