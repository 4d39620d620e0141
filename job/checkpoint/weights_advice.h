#pragma once

#include <filesystem>
#include <string>

#include "job/checkpoint/checkpoint_table.h"

namespace dotresize {

// Ends of error messages: what a model directory has in place of what is missing, and the command
// or the line that mends it. Each begins with "; " or ": ", or is empty.

/// For a directory without safetensors weights. Looks at the names of its files.
std::string advice_on_missing_weights(const std::filesystem::path& dir);

/// For weights without the tensor `missing`. Looks at the names and dtypes of the others.
std::string advice_on_missing_tensor(const CheckpointTable& table, const std::string& missing);

/// For a weight in a dtype that is not one of float32, float16 and bfloat16.
std::string advice_on_dtype(const std::string& dtype);

}  // namespace dotresize
