#pragma once

#include <filesystem>
#include <stdexcept>
#include <string>
#include <vector>

namespace dotresize {

/// A program that this one needs is not installed, or cannot be started. Exit code 69.
class ProgramMissing : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// $DOTRESIZE_WORKER, else dotresize-worker in the folder of this program. Throws ProgramMissing.
std::filesystem::path worker_program();

/// Becomes `command` (looked up in PATH): its exit code is this program's. Returns only by throwing
/// ProgramMissing.
[[noreturn]] void exec_program(const std::vector<std::string>& command);

/// Runs `command` to its end, without standard input and in a process group of its own, and returns
/// its exit code. SIGINT, SIGTERM and SIGHUP become one SIGTERM for it, and the result is then
/// kExitCancelled. It does not outlive this program. Throws ProgramMissing. Call before any other
/// thread is started.
int run_program(const std::vector<std::string>& command);

}  // namespace dotresize
