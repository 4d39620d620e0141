#pragma once

#include <filesystem>
#include <optional>
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

/// True if the job gives text, of which its model's tokenizer makes the tokens.
bool gives_text(const ResolvedJob& job);

/// Finds problems with the inputs. Texts need a model with a tokenizer. A directory of statistics
/// that is used, or that exists already, must hold statistics. Texts need enough bytes for the
/// tokens that are asked for.
std::vector<FileFinding> check_inputs(const ResolvedJob& job, const ModelConfig& config);

/// Reason why a job cannot have its output at a path.
struct OutputFault {
  bool foreign = false;  ///< true: exists and was not made by dotresize
  std::string what;
};

/// Returns the reason why a job cannot write its output at `output`; nullopt if it can. Only a
/// model that dotresize has made is ever overwritten. The last step renames the output, so its
/// folder must be writable, and it cannot be a mount point. `shown`: the path in the text.
std::optional<OutputFault> output_fault(const std::filesystem::path& output, bool overwrite,
                                        const std::filesystem::path& shown);

/// The part of output_fault() about what exists at `output`, not about its folder.
std::optional<OutputFault> replacement_fault(const std::filesystem::path& output, bool overwrite,
                                             const std::filesystem::path& shown);

/// Reason why there is no model directory at this path; empty if there is a directory. If it looks
/// like a name on the Hugging Face Hub, it says how to download the model.
std::string model_directory_fault(const std::filesystem::path& model_path);

/// Throws InputError("model.path", model_directory_fault()) if there is one.
void require_model_directory(const std::filesystem::path& model_path);

}  // namespace dotresize
