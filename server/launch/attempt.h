#pragma once

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/failure.h"
#include "base/process/child.h"

namespace dotresize {

/// Descriptor on which a supervisor holds the lock of attempt-N/lock.
inline constexpr int kLockDescriptor = 3;

/// attempt-N/supervisor.json: the process that supervises the attempt. Written first.
struct SupervisorRecord {
  pid_t pid = 0;
  uint64_t start_time = 0;  ///< process_start_time(pid)
  int64_t log_offset = 0;   ///< offset of the attempt's output in the job's log
};

/// attempt-N/exit.json: the attempt's end. Written last, when no process of the attempt is left.
struct ExitRecord {
  int exit_code = -1;  ///< -1 if a signal ended the command; 127: it could not be run
  int signal = 0;      ///< signal that ended the command itself; 0: none
};

void write_supervisor_record(const std::filesystem::path& dir, const SupervisorRecord& record);
void write_exit_record(const std::filesystem::path& dir, const ExitRecord& record);

/// Returns nullopt if the file does not exist (yet) or is damaged, which is logged. An attempt that
/// is not supervised has then vanished.
std::optional<SupervisorRecord> read_supervisor_record(const std::filesystem::path& dir);

/// Command to run for one attempt of a job.
struct AttemptCommand {
  std::filesystem::path dir;             ///< attempt-N; must not exist, its parent must
  std::vector<std::string> command;      ///< found in the PATH of `environment`, no shell
  std::vector<std::string> environment;  ///< complete, as "NAME=value"
  std::filesystem::path supervisor = "/proc/self/exe";  ///< dotresize-server binary
  mode_t umask = 022;                                   ///< the command's
};

/// Starts the supervisor of an attempt (subcommands.h), which outlives this process. An attempt is
/// alive as long as its supervisor holds the lock that it inherits here. A crash of this process at
/// any point therefore leaves either a supervisor that is found again or none. Throws
/// std::system_error.
Child start_attempt(const AttemptCommand& attempt);

enum class Liveness {
  kWaiting,  ///< not heard: not yet started, suspended, or being cleaned up, by another system
  kAlive,
  kExited,    ///< no process is left
  kVanished,  ///< ended without a record; some processes may be left
};

struct AttemptStatus {
  Liveness liveness = Liveness::kAlive;
  ExitRecord exit;                      ///< kExited
  bool ran = true;                      ///< false: kVanished before it had begun
  std::optional<Failure> failure = {};  ///< kExited: the cause, if known
  std::string note = {};                ///< text for people: v1::Job.launcher_status
  std::string command = {};             ///< v1::Job.command
};

AttemptStatus check_attempt(const std::filesystem::path& dir);

/// Asks the supervisor to end the attempt; a suspended one is resumed. Returns false if it cannot
/// be asked (yet).
bool stop_attempt(const std::filesystem::path& dir);

/// Status of an attempt of which no process is left. `why`: the cause, if known.
inline AttemptStatus ended(int exit_code, const std::optional<Failure>& why = std::nullopt) {
  return {Liveness::kExited, {exit_code, 0}, /*ran=*/true, why};
}

/// A failure of a whole attempt rather than of one rank.
inline Failure failure(const char* code, const std::string& message) {
  return {code, -1, "", "", message};
}

}  // namespace dotresize
