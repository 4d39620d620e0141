#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace dotresize {

/// Result of `dotresize doctor` for one part of a machine.
struct Check {
  enum State {
    kOk,
    kNote,   ///< missing, or less than expected, but not a fault
    kFault,  ///< does not work
  };
  std::string part;  ///< "mpirun"
  State state = kOk;
  std::string text = {};    ///< finding
  std::string advice = {};  ///< advice for the user; empty: none
  bool needed = true;       ///< CPU jobs cannot run while this is at fault
};

// Checks of the host's resources that a job needs, as the kernel reports them (host_checks.cpp).

/// Check of the machine's cores and memory, including the limits of control groups.
Check cores_check();
Check memory_check();
/// Check of the in-memory file system through which ranks exchange messages.
Check shared_memory_check(const std::filesystem::path& directory);
/// Check of a directory that jobs write into; `what`: the part's name.
Check directory_check(const std::string& what, const std::filesystem::path& directory);

// Checks by the worker, started as jobs start it, of itself and its devices (worker_checks.cpp).

/// Check::part of the self-test of all GPUs.
inline constexpr char kGpuSelfTest[] = "GPUs";

/// Checks that the worker starts.
Check worker_check();

/// Checks that mpirun starts two ranks on this machine that pass the self-test on the CPU. Requires
/// a worker that starts.
Check mpi_check();

/// Results of `dotresize-worker probe`, a check for each part, Python first. If the probe fails,
/// the only result is a fault of the worker.
std::vector<Check> probe_checks();

}  // namespace dotresize
