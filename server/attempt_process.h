#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "server/attempt_files.h"

namespace dotresize {

/// What to run for one attempt of a job.
struct AttemptCommand {
  std::filesystem::path dir;             ///< attempt-N; must not exist, its parent must
  std::vector<std::string> command;      ///< found in the PATH of `environment`, no shell
  std::vector<std::string> environment;  ///< "NAME=value", the whole of it
  std::filesystem::path supervisor = "/proc/self/exe";  ///< a dotresize-server
};

/// Starts the supervisor of an attempt (supervisor.h). An attempt is alive as long as its
/// supervisor holds the lock that it inherits here, so a crash of this process at any point leaves
/// either a supervisor that is found again or none. Returns the supervisor's pid, for the caller to
/// wait for. Throws std::system_error.
pid_t start_attempt(const AttemptCommand& attempt);

enum class Liveness {
  kAlive,
  kExited,    ///< exit.json says how; no process is left
  kVanished,  ///< the supervisor is gone without an exit.json; processes may be left
};

struct AttemptStatus {
  Liveness liveness = Liveness::kAlive;
  ExitRecord exit;  ///< kExited
};

AttemptStatus check_attempt(const std::filesystem::path& dir);

/// Asks the supervisor to end the attempt. False if it cannot be asked (yet).
bool stop_attempt(const std::filesystem::path& dir);

}  // namespace dotresize
