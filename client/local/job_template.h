#pragma once

#include <string>
#include <vector>

namespace dotresize {

/// Request for a job file.
struct TemplateRequest {
  std::string model;  ///< directory of a dense model
  std::string job_file = "job.yaml";
  std::vector<std::string> text;  ///< calibration text files; empty: use `tokens`
  std::string tokens;             ///< token file, instead of text
};

/// Commented job file, for its user to edit, that removes a fifth of the model's bytes. It has as
/// many calibration windows as the text has room for and as fit into about 20 minutes on two cores.
/// Paths are relative to the working directory. Throws InputError if the model cannot be
/// compressed, or if the text is missing or too short.
std::string job_template(const TemplateRequest& request);

/// Writes the job file. Throws InputError if it exists or cannot be written.
void write_job_template(const TemplateRequest& request);

}  // namespace dotresize
