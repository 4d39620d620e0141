#pragma once

#include <filesystem>

namespace dotresize {

/// Opens `directory` and from then on takes every path that begins with `name` for one below it:
/// Confinement and all that opens files through it find the file below the descriptor, without
/// following links, whatever has its name now. For a program whose starter holds the directory
/// open: `directory` is the path of the starter's descriptor. Call once, before threads start.
/// Throws InputError if the directory cannot be opened.
void hold_directory(const std::filesystem::path& name, const std::filesystem::path& directory);

/// Returns the path by which other processes of this user open a descriptor of this process.
std::filesystem::path path_for_others(int fd);

}  // namespace dotresize
