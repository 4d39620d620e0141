#pragma once

#include <string>

namespace dotresize {

/// Removes what a job none of whose processes is left has left beside its output: the directory
/// `<output>.partial` and the worker's lock file `<output>.lock`. Only ever things of just these
/// names and kinds, never through a symbolic link, and nothing while somebody else (a
/// `dotresize run`) holds the lock. Logs what it could not remove.
void remove_partial_output(const std::string& output_path);

}  // namespace dotresize
