#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "dotresize/v1/job.pb.h"

namespace dotresize {

/// A path inside a JobSpec: its key and the string in the message, which may be written to.
struct SpecPath {
  std::string key;  ///< "calibration.text"
  std::string* value;
};

/// Every path of a spec, also those that are empty. Sections that are absent are left out.
std::vector<SpecPath> paths_of(v1::JobSpec& spec);

/// `path` relative to `base_dir` (itself relative to the working directory, or absolute), without
/// "." components. ".." is resolved only by the file system: the name before it may be a link.
std::filesystem::path absolute_path(const std::filesystem::path& path,
                                    const std::filesystem::path& base_dir);

/// Makes every path of the spec absolute, in this way. Empty ones stay empty, and remote ones
/// (job/spec/remote_url.h) as they are.
void make_absolute(v1::JobSpec& spec, const std::filesystem::path& base_dir);

/// Whether `path` is `folder` or lies in it, by their names.
bool is_within(const std::filesystem::path& path, const std::filesystem::path& folder);

}  // namespace dotresize
