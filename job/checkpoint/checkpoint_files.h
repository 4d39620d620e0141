#pragma once

#include <filesystem>

#include "base/files/confinement.h"
#include "job/checkpoint/checkpoint_table.h"

namespace dotresize {

/// Finds the files. Opens only the index. Throws InputError if there are none (with a sentence on
/// what is there instead), the index is malformed, or a shard is missing.
CheckpointFiles find_checkpoint_files(const std::filesystem::path& dir,
                                      const Confinement& confinement = Confinement::of_process());

/// Returns true if the directory has one of the two files. A link to nothing counts.
bool has_checkpoint_files(const std::filesystem::path& dir);

}  // namespace dotresize
