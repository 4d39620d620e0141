#pragma once

#include <array>
#include <cstddef>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "dotresize/v1/job.pb.h"

namespace dotresize {

inline constexpr std::size_t kMaxJobFileBytes = std::size_t{1} << 20;

/// Section of a file that describes a sweep (job/spec/sweep_file.h).
inline constexpr char kSweepSection[] = "sweep";

/// Keys that set the size of the output. A job has one of them.
inline constexpr std::array<std::string_view, 5> kSizeKeys = {
    "method.sparsity", "method.width", "method.size", "method.bytes", "method.speed"};

/// A job with the locations of its keys, for later error messages.
struct JobFile {
  v1::JobSpec spec;
  std::string origin;                          ///< name of the file
  std::map<std::string, int> lines;            ///< lines of the keys
  std::map<std::string, std::string> changed;  ///< result of apply_changes()

  /// Location of the key or of the nearest parent: "job.yaml:4" or "--set method.size=2".
  std::string place_of(const std::string& key) const;
};

/// Words a fault like open_job_file, with the key's location.
std::string located(const JobFile& file, const std::string& key, const std::string& what);

/// Reads a job file (YAML or JSON), resolves its relative paths against the file's folder, applies
/// `changes` (apply_changes) and validates the result. Throws InputError with one line per fault,
/// "FILE:LINE: KEY: what is wrong and what would be right". Unknown keys are faults; the nearest
/// known key is suggested.
JobFile open_job_file(const std::filesystem::path& path,
                      const std::vector<std::string>& changes = {});

/// Text version; `origin` is the file's name in errors, `base_dir` its folder.
JobFile parse_job(const std::string& text, const std::string& origin,
                  const std::filesystem::path& base_dir,
                  const std::vector<std::string>& changes = {});

/// JSON job file that open_job_file turns into the same spec.
std::string job_spec_to_json(const v1::JobSpec& spec);

/// Applies `--set KEY=VALUE` changes such as "method.size=0.7", in order. The value is YAML; an
/// empty or null value removes the key. Setting one of several exclusive keys (such as
/// method.sparsity, width and size, or text and tokens) removes the others. Relative paths are
/// relative to the working directory. Returns each key that was set with the text of its change.
/// Throws InputError with one line per fault, "--set CHANGE: KEY: WHAT".
std::map<std::string, std::string> apply_changes(const std::vector<std::string>& changes,
                                                 v1::JobSpec& spec);

/// Sets `key` of the job to its value in `part`, and removes the keys that exclude it, as
/// apply_changes does.
void set_key(const std::string& key, const v1::JobSpec& part, v1::JobSpec& spec);

/// Removes `key`.
void clear_key(const std::string& key, v1::JobSpec& spec);

/// Returns true if a job can have only one of the two keys, or if one contains the other.
bool exclude_each_other(const std::string& a, const std::string& b);

}  // namespace dotresize
