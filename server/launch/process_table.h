#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace dotresize {

/// Start time of the process in clock ticks after boot. Together with the pid it identifies a
/// process uniquely. nullopt: no such process.
std::optional<uint64_t> process_start_time(pid_t pid);

/// Children, grandchildren and so on of the process, zombies included.
std::vector<pid_t> descendants_of(pid_t pid);

/// Other processes of this user that were started with all of these "NAME=value" in their
/// environment. Zombies are excluded.
std::vector<pid_t> processes_with_environment(const std::vector<std::string>& variables);

/// Sends the signal if the pid still belongs to the process with this start time. Returns false if
/// that process is gone.
bool signal_process(pid_t pid, uint64_t start_time, int signal);

}  // namespace dotresize
