#pragma once

#include <cstddef>
#include <filesystem>
#include <string>

namespace dotresize {

/// The memory that this process may use, in bytes: the machine's, or the limit of a control group
/// that it is in.
int64_t usable_memory_bytes();

/// The machine's memory in bytes, whatever this process may use of it.
int64_t machine_memory_bytes();

/// Processors that this process may run on.
int visible_cores();

/// So many of them that it may keep busy: fewer if a control group that it is in has a quota.
double usable_cores();

/// An environment variable; empty if it is not set.
std::string environment_variable(const char* name);

/// This machine's name, as error messages, the report and traces say it.
std::string host_name();

/// Makes the OpenMP threads of programs that this one starts spin for microseconds only, then
/// sleep, while they wait for each other, unless OMP_WAIT_POLICY or GOMP_SPINCOUNT already says
/// what they do. libgomp's own default is milliseconds: as soon as a machine has other load, such
/// threads keep the cores from those that they wait for (docs/performance.md).
void limit_spinning();

/// So many bytes from the generator of the operating system. Throws std::system_error.
std::string random_bytes(size_t count);

/// $XDG_CACHE_HOME/dotresize or ~/.cache/dotresize, where nobody else writes; empty if the
/// environment names neither. A variable that is empty counts as not set, as the XDG Base Directory
/// Specification has it.
std::filesystem::path user_cache_dir();

/// Whether this process may see GPUs: `driver` is there, and CUDA_VISIBLE_DEVICES does not hide
/// them by being empty.
bool sees_gpus(const std::filesystem::path& driver = "/dev/nvidiactl");

/// Whether ranks may share a GPU: DOTRESIZE_SHARE_GPU is set, for tests on a machine with one. NCCL
/// takes each rank for a host of its own then, and moves tensors through sockets.
bool ranks_share_gpus();

/// The absolute path of dotresize-worker: $DOTRESIZE_WORKER, else the one beside this program.
/// Throws ProgramMissing if it cannot be executed.
std::filesystem::path worker_program();

/// Throws ProgramMissing if PATH has no program of this name.
void require_program(const std::string& name);

}  // namespace dotresize
