#pragma once

#include <filesystem>

#include "client/doctor/check.h"

namespace dotresize {

// What a job takes of its host, asked of the kernel.

/// Cores and memory of the machine, and the limits of control groups.
Check cores_check();
Check memory_check();
/// The file system in memory where ranks exchange messages.
Check shared_memory_check(const std::filesystem::path& directory);
/// A directory that jobs write into; `what` it is.
Check directory_check(const std::string& what, const std::filesystem::path& directory);

}  // namespace dotresize
