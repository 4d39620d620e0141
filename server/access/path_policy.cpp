#include "server/access/path_policy.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <system_error>
#include <utility>

#include "base/errors.h"
#include "base/files/directory.h"
#include "base/files/file_changes.h"
#include "base/files/partial_path.h"
#include "base/process/work_budget.h"
#include "base/text/printable.h"
#include "job/spec/spec_paths.h"
#include "server/common/api_error.h"

namespace dotresize {
namespace {

namespace fs = std::filesystem;

constexpr char kOutputField[] = "output.path";
constexpr char kModelField[] = "model.path";

/// Returns true if a job creates the directory that this field names.
bool is_written(const std::string& field) {
  return field == kOutputField || field == "calibration.statistics.save";
}

/// Throws INVALID_ARGUMENT for a path that cannot be looked up: a name is too long, links form a
/// cycle, or a directory on the way is not searchable.
[[noreturn]] void refuse_lookup(const std::string& field, const fs::path& path,
                                const std::error_code& error) {
  throw invalid_argument(field, in_quotes(path.string()) + ": " + error.message());
}

/// Resolves symbolic links.
fs::path canonical_of(const std::string& field, const fs::path& path) {
  std::error_code error;
  fs::path canonical = fs::weakly_canonical(path, error);
  if (error) refuse_lookup(field, path, error);
  return canonical;
}

/// Returns the unique name of an output. Resolves its parent directory but not the output itself:
/// if that is a link, a job would replace the link.
fs::path actual_output(const std::string& field, const std::string& path) {
  fs::path output(path);
  if (!output.has_filename()) output = output.parent_path();
  const fs::path name = output.filename();
  if (name.empty() || name == "." || name == "..") {
    throw invalid_argument(field, "must end with the name of the directory to make");
  }
  fs::path actual = canonical_of(field, output.parent_path()) / name;
  std::error_code error;
  const fs::path longest = replaced_path(actual);  // longest name that the job uses beside it
  if (!fs::status_known(fs::symlink_status(longest, error))) refuse_lookup(field, longest, error);
  return actual;
}

bool overlap(const fs::path& a, const fs::path& b) { return is_within(a, b) || is_within(b, a); }

}  // namespace

RemotePolicy::RemotePolicy(std::vector<std::string> prefixes, const fs::path& state_dir)
    : prefixes_(std::move(prefixes)) {
  for (const std::string& prefix : prefixes_) {
    if (is_remote(prefix) && prefix.find("..") == std::string::npos &&
        prefix.find('@') == std::string::npos) {
      continue;
    }
    throw InputError("--allow-remote",
                     in_quotes(prefix) + " is not hf://OWNER/, s3://BUCKET/ or one with more");
  }
  if (prefixes_.empty()) return;
  const fs::path directory = state_dir / "remote";
  files::create_directories(state_dir);
  if (!fs::exists(directory)) files::create_directory(directory, 0700);  // or a link to elsewhere
  cache_ = {fs::canonical(directory), static_cast<int64_t>(fs::space(directory).capacity / 4 * 3)};
}

void RemotePolicy::require(const std::string& field, const std::string& url) const {
  if (std::ranges::any_of(prefixes_, [&](const auto& prefix) { return is_url_below(url, prefix); }))
    return;
  throw ApiError(
      grpc::StatusCode::PERMISSION_DENIED, "REMOTE_NOT_ALLOWED",
      field + ": " + url + " does not lie below a URL that this server allows (--allow-remote)",
      {{"field", field}});
}

PathPolicy::PathPolicy(const std::vector<fs::path>& roots, const fs::path& state_dir,
                       RemotePolicy remote)
    : state_dir_(fs::weakly_canonical(state_dir)), remote_(std::move(remote)) {
  for (const fs::path& root : roots) {
    if (!fs::is_directory(root)) {
      throw InputError("--allow-root", root.string() + " is not a directory");
    }
    roots_.push_back(fs::canonical(root));
  }
  std::vector<fs::path> readable = roots_;
  if (!roots_.empty() && remote_.allows_any()) readable.push_back(remote_.cache().directory);
  confinement_ = Confinement(readable);
}

void PathPolicy::check(const std::string& field, const std::string& given,
                       const fs::path& actual) const {
  // The unfinished output lies beside the output, so the parent directory is needed.
  const fs::path needed = is_written(field) ? actual.parent_path() : actual;
  std::error_code error;
  const fs::file_status status = fs::symlink_status(needed, error);
  if (!fs::status_known(status)) refuse_lookup(field, needed, error);
  // A link that is still there leads to a path that does not exist yet and cannot be checked.
  const bool allowed =
      roots_.empty() ||
      (!fs::is_symlink(status) &&
       std::ranges::any_of(roots_, [&](const fs::path& root) { return is_within(needed, root); }));
  if (!allowed) {
    throw ApiError(grpc::StatusCode::PERMISSION_DENIED, "PATH_NOT_ALLOWED",
                   field + ": " + given +
                       " does not lie in a directory that this server allows (--allow-root)",
                   {{"field", field}});
  }
  if (overlap(actual, state_dir_) ||
      (remote_.allows_any() && overlap(actual, remote_.cache().directory))) {
    throw invalid_argument(field, "collides with the server's state directory");
  }
}

v1::JobSpec PathPolicy::resolve(const v1::JobSpec& spec) const {
  v1::JobSpec resolved = spec;
  size_t bytes = 0;
  for (const SpecPath& path : paths_of(resolved)) {
    WorkBudget::check();
    if (path.value->empty()) continue;
    if (is_remote(*path.value)) {
      remote_.require(path.key, *path.value);
      continue;
    }
    const fs::path actual = is_written(path.key) ? actual_output(path.key, *path.value)
                                                 : canonical_of(path.key, *path.value);
    check(path.key, *path.value, actual);
    bytes += actual.native().size();
    if (bytes > kMostClaimedBytes) refuse_claims("long paths");
    *path.value = actual.string();
  }
  // An output that overlaps an input is refused: overwriting it or cleaning up would remove the
  // input.
  const std::vector<PathClaim> claims = claims_of(resolved);
  for (const PathClaim& written : claims) {
    if (!written.writes) continue;
    for (const PathClaim& read : claims) {
      WorkBudget::check();
      if (read.writes || !overlap(written.path, read.path)) continue;
      throw invalid_argument(written.field, "'" + written.path + "' collides with " + read.field +
                                                ", '" + read.path + "'");
    }
  }
  if (is_remote(spec.model().path())) return resolved;
  // Links in a model directory, as the Hugging Face cache has them, must not lead elsewhere.
  std::error_code error;  // an unreadable directory is refused later, when it is read
  for (const fs::directory_entry& file : entries_of(resolved.model().path(), error)) {
    WorkBudget::check();
    if (!fs::is_symlink(file.symlink_status(error))) continue;
    check(kModelField, file.path().string(), canonical_of(kModelField, file.path()));
  }
  return resolved;
}

std::vector<PathClaim> claims_of(const v1::JobSpec& resolved) {
  std::vector<PathClaim> claims;
  v1::JobSpec spec = resolved;
  for (const SpecPath& path : paths_of(spec)) {
    if (path.value->empty()) continue;
    if (is_remote(*path.value)) {
      claims.push_back({path.key, without_revision(*path.value), is_written(path.key)});
      continue;
    }
    if (!is_written(path.key)) {
      claims.push_back({path.key, *path.value, false});
      continue;
    }
    for (const fs::path& name :
         {fs::path(*path.value), partial_path(*path.value), replaced_path(*path.value)}) {
      claims.push_back({path.key, name.string(), true});
    }
  }
  return claims;
}

void require_ownership(const std::vector<PathClaim>& claims, const OutputRights& rights) {
  for (const PathClaim& claim : claims) {
    if (!claim.writes || is_remote(claim.path)) continue;
    const std::optional<ForeignPlace> found = foreign_place(claim.path, rights);
    if (!found) continue;
    throw ApiError(
        grpc::StatusCode::PERMISSION_DENIED, "NOT_THE_OWNER",
        claim.field + ": " + found->directory.string() + " " + ownership_fault(found->owner),
        {{"field", claim.field}});
  }
}

RemoteCopies copies_of(const v1::Job& job) {
  RemoteCopies copies;
  for (const v1::FetchedFile& file : job.fetched()) {
    copies[file.url()] = {file.path(), file.revision()};
  }
  return copies;
}

}  // namespace dotresize
