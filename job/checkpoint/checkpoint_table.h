#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "base/files/confinement.h"
#include "job/checkpoint/safetensors_header.h"
#include "job/model/model_config.h"

namespace dotresize {

inline constexpr char kSingleFile[] = "model.safetensors";
inline constexpr char kIndexFile[] = "model.safetensors.index.json";

/// The safetensors files of a model directory that are read: model.safetensors, or else the shards
/// of model.safetensors.index.json. Other safetensors files are not part of the model.
struct CheckpointFiles {
  std::vector<std::string> names;            ///< in the directory, sorted
  std::map<std::string, std::string> index;  ///< file by tensor; empty: there is no index
};

/// Finds the files. Opens only the index. Throws InputError if there are none (with a sentence on
/// what is there instead), the index is malformed, or a shard is missing.
CheckpointFiles find_checkpoint_files(const std::filesystem::path& dir,
                                      const Confinement& confinement = Confinement::of_process());

/// Returns true if the directory has one of the two files. A link to nothing counts.
bool has_checkpoint_files(const std::filesystem::path& dir);

/// Place of a tensor's elements.
struct TensorPlace {
  std::string file;         ///< name in the model directory
  std::string stored_name;  ///< name in the file; a fused tensor has several places
  std::string dtype;        ///< as in the file: "F32", "BF16", ...
  std::vector<int64_t> shape;
  uint64_t begin = 0;  ///< bytes from the start of the file
  uint64_t end = 0;
};

/// A model's tensors in its files.
struct CheckpointTable {
  /// By the names of job/model/tensor_table.h.
  std::map<std::string, TensorPlace> tensors;
  /// Tensors that the index lists and no file holds.
  std::vector<std::string> absent;
};

/// Makes the table of the files' headers as they are. Throws InputError if index and headers
/// disagree in any way. `index_path`: for errors.
CheckpointTable table_as_stored(const CheckpointFiles& files,
                                const std::map<std::string, SafetensorsHeader>& headers,
                                const std::filesystem::path& dir);

/// Makes the table of a model as transformers reads it: names without `model.` get it; fused
/// experts become one tensor each; a tied model's head stands for an embedding that is not stored;
/// the index need not list all tensors of its files. Throws InputError if the index places a tensor
/// in another file than one that holds it.
CheckpointTable table_of_model(const CheckpointFiles& files,
                               const std::map<std::string, SafetensorsHeader>& headers,
                               const std::filesystem::path& dir, const ModelConfig& config);

/// Throws InputError unless the table has every tensor of the config's checkpoint in its shape and
/// in float32, float16 or bfloat16. The error says what is stored instead, and what would help.
void require_tensors(const CheckpointTable& table, const std::filesystem::path& dir,
                     const ModelConfig& config);

/// "[2, 3]".
std::string shape_text(const std::vector<int64_t>& shape);

}  // namespace dotresize
