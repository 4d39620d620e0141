#pragma once

#include <string>

namespace dotresize {

/// Removes the `.partial` directory of a job with no live process: only a directory of exactly this
/// name, never through a symbolic link, and not while another process (a `dotresize run`) holds its
/// lock. Logs what it cannot remove.
void remove_partial_output(const std::string& output_path);

}  // namespace dotresize
