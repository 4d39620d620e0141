#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "dotresize/v1/job.pb.h"

namespace dotresize {

inline constexpr std::size_t kMaxJobFileBytes = std::size_t{1} << 20;

/// A job with the locations of its keys, for later error messages.
struct JobFile {
  v1::JobSpec spec;
  std::string origin;                          ///< name of the file
  std::map<std::string, int> lines;            ///< lines of the keys
  std::map<std::string, std::string> changed;  ///< result of apply_changes()

  /// Location of the key or of the nearest parent: "job.yaml:4" or "--set method.size=2".
  std::string place_of(const std::string& key) const;
};

/// Words a fault like read_job_file, with the key's location.
std::string located(const JobFile& file, const std::string& key, const std::string& what);

/// Reads a job file (YAML or JSON), resolves its relative paths against the file's folder, applies
/// `changes` (apply_changes) and validates the result. Throws InputError with one line per fault,
/// "FILE:LINE: KEY: what is wrong and what would be right". Unknown keys are faults; the nearest
/// known key is suggested.
JobFile open_job_file(const std::filesystem::path& path,
                      const std::vector<std::string>& changes = {});
v1::JobSpec read_job_file(const std::filesystem::path& path,
                          const std::vector<std::string>& changes = {});

/// Text versions; `origin` is the file's name in errors, `base_dir` its folder.
JobFile parse_job(const std::string& text, const std::string& origin,
                  const std::filesystem::path& base_dir,
                  const std::vector<std::string>& changes = {});
v1::JobSpec parse_job_text(const std::string& text, const std::string& origin,
                           const std::filesystem::path& base_dir);

/// JSON job file that read_job_file turns into the same spec.
std::string job_spec_to_json(const v1::JobSpec& spec);

}  // namespace dotresize
