#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace dotresize {

/// Memory that this process may use, in bytes: the machine's, or the limit of its control groups.
int64_t usable_memory_bytes();

/// Memory of the machine in bytes, regardless of limits.
int64_t machine_memory_bytes();

/// Bytes that this process, and each of its children, may map (RLIMIT_AS, RLIMIT_DATA); nullopt
/// without a limit.
std::optional<int64_t> process_memory_limit();

/// Number of processors that this process may run on.
int visible_cores();

/// Number of processors that this process may keep busy: visible_cores(), or less if one of its
/// control groups has a quota.
double usable_cores();

/// Directory through which the ranks of a host, and NCCL, exchange messages.
inline constexpr char kSharedMemory[] = "/dev/shm";

/// Returns a fault, as a text, if the directory's file system has less than `least` bytes free;
/// otherwise "".
std::string space_fault(const std::filesystem::path& directory, int64_t least);

/// Value of an environment variable; empty if it is not set.
std::string environment_variable(const char* name);

/// Name of this machine in error messages, the report and traces.
std::string host_name();

/// Makes the OpenMP threads of child programs spin for microseconds only while they wait for each
/// other, then sleep. Does nothing if OMP_WAIT_POLICY or GOMP_SPINCOUNT is set. libgomp's default
/// is milliseconds: on a machine with other load, spinning threads keep the cores from the threads
/// that they wait for (docs/performance.md).
void limit_spinning();

/// Removes the variables by which the MPI or Slurm step that has started this process describes
/// itself: an mpirun started here would take itself for a part of that step and end without a word.
/// Keeps variables by which users tune MPI (OMPI_MCA_btl, PMIX_MCA_gds). Gives a user without a
/// home directory and without an entry in the list of users the home directory "/", which nobody
/// else can write to, because OpenMPI crashes without one. Call before other threads start.
void leave_parent_step();

/// Returns `count` bytes from the operating system's generator. Throws std::system_error.
std::string random_bytes(size_t count);

/// $XDG_CACHE_HOME/dotresize or ~/.cache/dotresize, which only this user writes; empty if neither
/// variable is set. An empty variable counts as not set, as in the XDG Base Directory
/// Specification.
std::filesystem::path user_cache_dir();

/// True if this process may see GPUs: `driver` exists, and CUDA_VISIBLE_DEVICES is not set to an
/// empty value.
bool sees_gpus(const std::filesystem::path& driver = "/dev/nvidiactl");

/// True if ranks may share a GPU: DOTRESIZE_SHARE_GPU is set, for tests on a machine with one. NCCL
/// then treats each rank as its own host and moves tensors through sockets.
bool ranks_share_gpus();

}  // namespace dotresize
