#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "job/checkpoint/checkpoint_table.h"
#include "job/model/model_config.h"

namespace dotresize {

// Ends of error messages: what a model directory has in place of what is missing, and the command
// or the line that mends it. Each begins with "; " or ": ", or is empty.

/// For a directory without safetensors weights. Looks at the names of its files.
std::string advice_on_missing_weights(const std::filesystem::path& dir);

/// For a directory without a config.json.
std::string advice_on_missing_config(const std::filesystem::path& dir);

/// For a shard that is not in the directory.
std::string advice_on_missing_shard(const std::filesystem::path& dir);

/// For weights in `dir` without the tensor `missing`. Looks at the names of the others. `stated`:
/// what config.json says of their quantisation.
std::string advice_on_missing_tensor(const CheckpointTable& table, const std::filesystem::path& dir,
                                     const std::string& missing,
                                     const std::optional<Quantisation>& stated);

/// For a weight in a dtype that is no floating one.
std::string advice_on_dtype(const CheckpointTable& table,
                            const std::optional<Quantisation>& stated);

/// For a tensor of another shape than config.json implies.
std::string advice_on_shape(const std::string& tensor, const std::vector<int64_t>& found);

}  // namespace dotresize
