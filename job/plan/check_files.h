#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "job/model/model_config.h"
#include "job/plan/resolved_job.h"

namespace dotresize {

/// In the directory of `calibration.statistics`: says what they are of.
inline constexpr char kStatisticsFile[] = "statistics.json";

/// What a job's files say, before any of them is read, about how it would end.
struct FileFinding {
  std::string key;
  std::string what;
  bool fatal = true;  ///< the job would fail; else it may
};

/// Of the model: text needs its tokenizer. Of statistics that are used: whether they are there. Of
/// the texts: whether they have as many tokens as are asked for, by their bytes. Of those with
/// enough, nothing.
std::vector<FileFinding> check_inputs(const ResolvedJob& job, const ModelConfig& config);

/// Why the job could not put its output there; empty if it can.
std::string output_fault(const std::filesystem::path& output, bool overwrite);

/// Throws InputError("model.path", ...) if the model is no directory, with the way to get it if it
/// looks like a name on the Hugging Face Hub.
void require_model_directory(const std::filesystem::path& model_path);

}  // namespace dotresize
