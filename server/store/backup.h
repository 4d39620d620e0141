#pragma once

#include <filesystem>

namespace dotresize {

/// Copies a state directory, whose server may be running, into the new directory `target`: the job
/// table as of one moment, and each job's file, log and records of its attempts. `target` is a
/// state directory itself. Returns the number of jobs. Throws InputError if there is no job table
/// or `target` exists; std::system_error or SQLite::Exception if reading or writing fails, which
/// leaves `target` incomplete.
int back_up(const std::filesystem::path& state_dir, const std::filesystem::path& target);

}  // namespace dotresize
