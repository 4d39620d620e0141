#pragma once

#include <filesystem>
#include <string>
#include <string_view>
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
/// stay as they are.
void make_absolute(v1::JobSpec& spec, const std::filesystem::path& base_dir);

/// Returns true if `path` is `folder` or lies in it, comparing names only.
bool is_within(const std::filesystem::path& path, const std::filesystem::path& folder);

/// Returns true if any path of the job is remote.
bool has_remote_paths(const v1::JobSpec& spec);

/// Throws InputError, with the key and a way out, if a path is remote. For commands that need local
/// files.
void require_local_paths(const v1::JobSpec& spec);

/// Returns true for a path that is a remote URL: "hf://OWNER/NAME[@REVISION]" on the Hugging Face
/// Hub, or "s3://BUCKET/KEY" in an S3-compatible store.
bool is_remote(std::string_view path);

/// Returns true for a URL on the Hub. Only these have revisions.
bool is_on_hub(std::string_view path);

/// Error text for a remote path in the key (such as "model.path"); empty if it is valid.
std::string remote_fault(const std::string& key, const std::string& url);

/// Returns the URL without its revision: "hf://OWNER/NAME[/FILE]". S3 URLs stay as they are.
std::string without_revision(const std::string& url);

/// Returns the URL at this commit: "hf://OWNER/NAME@COMMIT/FILE". S3 URLs get the revision too: S3
/// has no revisions, but the text then identifies the content.
std::string at_revision(const std::string& url, const std::string& revision);

/// Returns true if `url` is `prefix` ("hf://OWNER/" or "s3://BUCKET/KEY") or lies below it.
bool is_url_below(const std::string& url, const std::string& prefix);

}  // namespace dotresize
