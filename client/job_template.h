#pragma once

#include <string>
#include <vector>

namespace dotresize {

/// Which job file to write.
struct TemplateRequest {
  std::string model;  ///< a dense model's directory
  std::string job_file = "job.yaml";
  std::vector<std::string> text;  ///< for calibration; none: a name to be replaced
};

/// A commented job file that takes a fifth of the model's bytes away, for its user to edit. Paths
/// are as in the request, which is taken to stand in the working directory. Throws InputError if
/// the model cannot be compressed.
std::string job_template(const TemplateRequest& request);

/// Writes it. Throws InputError if the file exists or cannot be written.
void write_job_template(const TemplateRequest& request);

}  // namespace dotresize
