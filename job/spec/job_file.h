#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "dotresize/v1/job.pb.h"

namespace dotresize {

inline constexpr std::size_t kMaxJobFileBytes = std::size_t{1} << 20;

/// A job, and where its keys stand: for what is found wrong with them later.
struct JobFile {
  v1::JobSpec spec;
  std::string origin;                          ///< name of the file
  std::map<std::string, int> lines;            ///< of its keys
  std::map<std::string, std::string> changed;  ///< keys of apply_changes()

  /// "job.yaml:4" or "--set method.size=2": of the key, or of the nearest one above it.
  std::string place_of(const std::string& key) const;
};

/// Reads a job file (YAML or JSON), makes its relative paths absolute (relative to the file),
/// applies `changes` (apply_changes), validates. Throws InputError whose message has one line per
/// fault, each "FILE:LINE: KEY: what is wrong and what would be right"; unknown keys are faults and
/// the nearest known key is suggested.
JobFile open_job_file(const std::filesystem::path& path,
                      const std::vector<std::string>& changes = {});
v1::JobSpec read_job_file(const std::filesystem::path& path,
                          const std::vector<std::string>& changes = {});

/// The same from text; `origin` stands for the file's name in errors, `base_dir` for its folder.
JobFile parse_job(const std::string& text, const std::string& origin,
                  const std::filesystem::path& base_dir,
                  const std::vector<std::string>& changes = {});
v1::JobSpec parse_job_text(const std::string& text, const std::string& origin,
                           const std::filesystem::path& base_dir);

/// The spec as the JSON job file that read_job_file gives back unchanged.
std::string job_spec_to_json(const v1::JobSpec& spec);

}  // namespace dotresize
