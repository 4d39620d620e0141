#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "job/model/model_config.h"
#include "job/plan/resolved_job.h"

namespace dotresize {

/// File in the directory of `calibration.statistics` that identifies what they belong to.
inline constexpr char kStatisticsFile[] = "statistics.json";

/// Problem with a job's files that can be found before any of them is read.
struct FileFinding {
  std::string key;  ///< key in the job file
  std::string what;
  bool fatal = true;  ///< the job would fail; false: it may fail
};

/// Finds problems with the inputs. Texts need a model with a tokenizer. A directory of statistics
/// that is used, or that exists already, must hold statistics. Texts need enough bytes for the
/// tokens that are asked for.
std::vector<FileFinding> check_inputs(const ResolvedJob& job, const ModelConfig& config);

/// Returns the reason why the job cannot write its output there; empty if it can.
std::string output_fault(const std::filesystem::path& output, bool overwrite);

/// Throws InputError("model.path", ...) if `model_path` is not a directory. If it looks like a name
/// on the Hugging Face Hub, the error says how to download the model.
void require_model_directory(const std::filesystem::path& model_path);

}  // namespace dotresize
