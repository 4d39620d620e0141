#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "job/checkpoint/checkpoint_table.h"

namespace dotresize {

/// Looks at the names of all files in a model directory. Each is one of: read, known to be without
/// effect, refused, or named in one of the returned sentences. Throws InputError for an adapter
/// beside the weights, which transformers loads too if peft is installed.
std::vector<std::string> check_model_files(const std::filesystem::path& dir,
                                           const CheckpointFiles& files);

}  // namespace dotresize
