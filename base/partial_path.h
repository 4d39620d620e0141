#pragma once

#include <filesystem>

namespace dotresize {

/// `<output>.partial`: the directory of an output that is not whole yet. "out/" is "out".
std::filesystem::path partial_path(const std::filesystem::path& output);

/// `<output>.replaced`: an old output for as long as a new one takes its place.
std::filesystem::path replaced_path(const std::filesystem::path& output);

/// Whether the name of `path` is one of these two of another output.
bool is_unfinished_output(const std::filesystem::path& path);

}  // namespace dotresize
