#pragma once

#include <filesystem>
#include <optional>

#include "dotresize/v1/sweep.pb.h"

namespace dotresize {

/// Throws FAILED_PRECONDITION unless `output` is absent, empty, or the directory of another sweep.
/// `output` is canonical except for its last name. A link there, or in place of one of the sweep's
/// folders, is refused.
void check_sweep_directory(const std::filesystem::path& output);

/// Reads results.json in the sweep's directory. Returns nullopt if it is absent or a link is on the
/// way. Throws InputError for malformed content.
std::optional<v1::SweepResults> read_sweep_results(const std::filesystem::path& output);

}  // namespace dotresize
