#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace dotresize {

// Faults of this machine that keep jobs from running, in words; empty: none. The server's health
// and queue ask for them, and `dotresize doctor`.

/// Where the ranks of a host, and NCCL, exchange messages.
inline constexpr char kSharedMemory[] = "/dev/shm";

/// Why the worker does not start, asked of itself: it may lack a library. Throws ProgramMissing if
/// there is none.
std::string worker_fault();

/// Whether the file system of a directory has less free than `least` bytes.
std::string space_fault(const std::filesystem::path& directory, int64_t least);

}  // namespace dotresize
