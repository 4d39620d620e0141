#pragma once

#include <string>
#include <vector>

namespace dotresize {

/// Which job file to write.
struct TemplateRequest {
  std::string model;  ///< a dense model's directory
  std::string job_file = "job.yaml";
  std::vector<std::string> text;  ///< for calibration; none: `tokens`
  std::string tokens;             ///< token file, in place of text
};

/// A commented job file that takes a fifth of the model's bytes away, for its user to edit. It has
/// as many calibration windows as the text has room for and as the time allows: about a quarter of
/// an hour on two cores. Paths are as in the request, which is taken to stand in the working
/// directory. Throws InputError if the model cannot be compressed, or the text is missing or short.
std::string job_template(const TemplateRequest& request);

/// Writes it. Throws InputError if the file exists or cannot be written.
void write_job_template(const TemplateRequest& request);

}  // namespace dotresize
