#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "dotresize/v1/job.pb.h"

namespace dotresize {

/// A path inside a JobSpec: its key and a pointer to its string, which may be changed.
struct SpecPath {
  std::string key;  ///< "calibration.text"
  std::string* value;
};

/// Returns every path of a spec, also empty ones. Absent sections are left out.
std::vector<SpecPath> paths_of(v1::JobSpec& spec);

/// Returns `path` relative to `base_dir` (itself relative to the working directory, or absolute),
/// without "." components. Only the file system resolves "..", because the name before it may be a
/// link.
std::filesystem::path absolute_path(const std::filesystem::path& path,
                                    const std::filesystem::path& base_dir);

/// Replaces a leading "~" by this user's home directory, as a shell does; not "~user".
std::string with_home(const std::string& path);

/// Makes every path of the spec absolute with with_home and absolute_path. Empty and remote paths
/// (job/spec/remote_url.h) stay as they are.
void make_absolute(v1::JobSpec& spec, const std::filesystem::path& base_dir);

/// Returns true if `path` is `folder` or lies in it, comparing names only.
bool is_within(const std::filesystem::path& path, const std::filesystem::path& folder);

/// Returns true if any path of the job is remote.
bool has_remote_paths(const v1::JobSpec& spec);

/// Throws InputError, with the key and a way out, if a path is remote. For commands that need local
/// files.
void require_local_paths(const v1::JobSpec& spec);

}  // namespace dotresize
