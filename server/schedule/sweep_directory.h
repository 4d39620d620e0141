#pragma once

#include <filesystem>
#include <optional>

#include "dotresize/v1/sweep.pb.h"

namespace dotresize {

/// Throws FAILED_PRECONDITION unless a sweep may have this directory: there is none yet, or it is
/// empty or that of another sweep. `output` is canonical but for its last name; a link there, or in
/// place of a folder of the sweep, would lead elsewhere.
void check_sweep_directory(const std::filesystem::path& output);

/// What results.json in the sweep's directory says; nothing if it is not there or a link is on the
/// way. Throws InputError for another file.
std::optional<v1::SweepResults> read_sweep_results(const std::filesystem::path& output);

}  // namespace dotresize
