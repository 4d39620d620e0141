#pragma once

#include <string>

namespace dotresize {

/// Removes what a job none of whose processes is left has left beside its output: the directory
/// `<output>.partial`. Only ever a directory of just this name, never through a symbolic link, and
/// not while somebody else (a `dotresize run`) holds its lock. Logs what it could not remove.
void remove_partial_output(const std::string& output_path);

}  // namespace dotresize
