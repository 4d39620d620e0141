#pragma once

#include <filesystem>
#include <string>

#include "dotresize/v1/job.pb.h"

namespace dotresize {

/// Reads a job file (YAML or JSON), makes its relative paths absolute (relative to the file),
/// validates. Throws InputError whose message has one line per fault, each "FILE:LINE: KEY: what is
/// wrong and what would be right"; unknown keys are faults and the nearest known key is suggested.
v1::JobSpec read_job_file(const std::filesystem::path& path);

/// The same from text; `origin` stands for the file's name in errors, `base_dir` for its folder.
v1::JobSpec parse_job_text(const std::string& text, const std::string& origin,
                           const std::filesystem::path& base_dir);

/// The spec as the JSON job file that read_job_file gives back unchanged.
std::string job_spec_to_json(const v1::JobSpec& spec);

}  // namespace dotresize
