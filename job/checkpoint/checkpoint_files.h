#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "base/files/confinement.h"

namespace dotresize {

inline constexpr char kSingleFile[] = "model.safetensors";
inline constexpr char kIndexFile[] = "model.safetensors.index.json";

/// The safetensors files of a model directory that are read: model.safetensors, or else the shards
/// of model.safetensors.index.json. Other safetensors files are not part of the model.
struct CheckpointFiles {
  std::vector<std::string> names;            ///< in the directory, sorted
  std::map<std::string, std::string> index;  ///< file by tensor; empty: there is no index
};

/// Throws InputError if this user may not open what is in the directory.
void require_search_permission(const std::filesystem::path& dir);

/// Finds the files. Opens only the index. Throws InputError if there are none (with a sentence on
/// what is there instead), the index is malformed, or a shard is missing.
CheckpointFiles find_checkpoint_files(const std::filesystem::path& dir,
                                      const Confinement& confinement = Confinement::of_process());

/// Returns true if the directory has one of the two files. A link to nothing counts.
bool has_checkpoint_files(const std::filesystem::path& dir);

/// Parses the text of a model.safetensors.index.json: tensor name to file name. `origin` names it
/// in errors. Throws InputError for malformed JSON, a repeated tensor, an index without tensors, or
/// a file name that is not a plain name in the index's own directory.
std::map<std::string, std::string> parse_shard_index(const std::string& text,
                                                     const std::string& origin);

/// Looks at the names of all files in a model directory. Each is one of: read, known to be without
/// effect, refused, or named in one of the returned sentences. Throws InputError for an adapter
/// beside the weights, which transformers loads too if peft is installed.
std::vector<std::string> check_model_files(const std::filesystem::path& dir,
                                           const CheckpointFiles& files);

}  // namespace dotresize
