#pragma once

#include <string>
#include <vector>

namespace dotresize {

/// Becomes `command` (looked up in PATH): its exit code is this program's. Returns only by throwing
/// ProgramMissing.
[[noreturn]] void exec_program(const std::vector<std::string>& command);

/// Runs `command` to its end, without standard input and in a process group of its own, and returns
/// its exit code. SIGINT, SIGTERM and SIGHUP become one SIGTERM for it, and the result is then
/// kExitCancelled. It does not outlive this program. Throws ProgramMissing. Call before any other
/// thread is started.
int run_program(const std::vector<std::string>& command);

}  // namespace dotresize
