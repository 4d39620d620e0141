#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "job/checkpoint/checkpoint_table.h"
#include "job/checkpoint/safetensors_header.h"
#include "job/model/model_config.h"

namespace dotresize {

/// Makes the table of the files' headers as they are. Throws InputError if index and headers
/// disagree in any way. `index_path`: for errors.
CheckpointTable table_as_stored(const CheckpointFiles& files,
                                const std::map<std::string, SafetensorsHeader>& headers,
                                const std::filesystem::path& dir);

/// Makes the table of a model as transformers reads it: names without `model.` get it; experts that
/// are stored as one become one tensor each; a tied model's head stands for an embedding that is
/// not stored; the index need not list all tensors of its files; quantised weights have their
/// scales; the text part of a wrapper gets the names of a model of text; layers that predict
/// further tokens are left out. Throws InputError if the index places a tensor in another file than
/// one that holds it, or a wrapper's text part is stored in two layouts or not at all.
CheckpointTable table_of_model(const CheckpointFiles& files,
                               const std::map<std::string, SafetensorsHeader>& headers,
                               const std::filesystem::path& dir, const ModelConfig& config);

/// Throws InputError unless the table has every tensor of the config's checkpoint in its shape and
/// in float32, float16 or bfloat16. The error says what is stored instead, and what would help.
void require_tensors(const CheckpointTable& table, const std::filesystem::path& dir,
                     const ModelConfig& config);

}  // namespace dotresize
