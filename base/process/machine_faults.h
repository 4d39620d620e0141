#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace dotresize {

// Texts about faults of this machine that keep jobs from running; empty: no fault. The server's
// health check and queue use them, and `dotresize doctor`.

/// Directory through which the ranks of a host, and NCCL, exchange messages.
inline constexpr char kSharedMemory[] = "/dev/shm";

/// Runs the worker and returns why it does not start; for example, it may lack a library. Throws
/// ProgramMissing if there is no worker.
std::string worker_fault();

/// Returns a fault if the directory's file system has less than `least` bytes free.
std::string space_fault(const std::filesystem::path& directory, int64_t least);

}  // namespace dotresize
