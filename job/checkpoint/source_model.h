#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/files/confinement.h"
#include "job/checkpoint/checkpoint_table.h"
#include "job/model/model_config.h"

namespace dotresize {

/// A model directory as it is read everywhere: by plans, workers, exports and checks.
struct SourceModel {
  ModelConfig config;  ///< with the dtypes of the stored tensors
  CheckpointFiles files;
  /// Absent: the directory has no weights, only a config.json, as for a model that is fetched
  /// later. Sizes then follow the stated dtype.
  std::optional<CheckpointTable> table;
  /// Sentences on what is in the directory and not part of the model: files, keys of config.json,
  /// tensors; and on contradictions without effect on the result.
  std::vector<std::string> warnings;
};

/// Reads config.json, the index and the headers of the weights, and looks at the names of all other
/// files. Throws InputError for whatever transformers would read as another model, or not read.
SourceModel read_source_model(const std::filesystem::path& dir,
                              const Confinement& confinement = Confinement::of_process());

/// Throws InputError if the model has no weights, or an unequal tied head
/// (require_equal_tied_head).
void require_weights(const std::filesystem::path& dir, const SourceModel& model);

/// Reads a model whose weights are needed: both of these.
SourceModel read_model_with_weights(const std::filesystem::path& dir);

/// Throws InputError if the model is tied, and its files have a head with other values than the
/// embedding. transformers 4 and 5 read different models there. Reads both tensors if there are
/// two.
void require_equal_tied_head(const std::filesystem::path& dir, const SourceModel& model,
                             const Confinement& confinement = Confinement::of_process());

}  // namespace dotresize
