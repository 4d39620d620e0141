#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace dotresize {

/// When the process was started, in clock ticks after boot: with the pid, it names a process for
/// good. Empty if there is no such process.
std::optional<uint64_t> process_start_time(pid_t pid);

/// Children, grandchildren and so on that are alive now; zombies count.
std::vector<pid_t> descendants_of(pid_t pid);

/// Processes of this user, other than this one and zombies, that were started with all of these
/// "NAME=value" in their environment.
std::vector<pid_t> processes_with_environment(const std::vector<std::string>& variables);

/// Sends the signal only if the pid still belongs to the process that was started then. False if
/// it is gone.
bool signal_process(pid_t pid, uint64_t start_time, int signal);

}  // namespace dotresize
