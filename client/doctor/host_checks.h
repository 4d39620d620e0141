#pragma once

#include <filesystem>

#include "client/doctor/check.h"

namespace dotresize {

// Checks of the host's resources that a job needs, as the kernel reports them.

/// Check of the machine's cores and memory, including the limits of control groups.
Check cores_check();
Check memory_check();
/// Check of the in-memory file system through which ranks exchange messages.
Check shared_memory_check(const std::filesystem::path& directory);
/// Check of a directory that jobs write into; `what`: the part's name.
Check directory_check(const std::string& what, const std::filesystem::path& directory);

}  // namespace dotresize
