#pragma once

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/failure.h"

namespace dotresize {

/// The secret with which the processes of one attempt authenticate. Only its hash is ever stored,
/// but for ranks on other machines: they read it from a private file, which goes with the attempt.
struct AttemptToken {
  std::string secret;  ///< 64 hexadecimal digits
  std::string sha256;  ///< 32 bytes
};

AttemptToken make_attempt_token();

/// AttemptToken.sha256 of a secret.
std::string token_hash(const std::string& secret);

/// Whether `secret` has this SHA-256, in time that does not depend on where they differ.
bool matches_token(const std::string& secret, const std::string& sha256);

/// The descriptor on which a supervisor holds the lock of attempt-N/lock.
inline constexpr int kLockDescriptor = 3;

/// attempt-N/supervisor.json: which process supervises the attempt. Written first.
struct SupervisorRecord {
  pid_t pid = 0;
  uint64_t start_time = 0;  ///< process_start_time(pid)
  int64_t log_offset = 0;   ///< where the attempt's output begins in the job's log
};

/// attempt-N/exit.json: how the attempt ended. Written last, when no process of it is left.
struct ExitRecord {
  int exit_code = -1;  ///< -1 if a signal ended the command; 127: it could not be run
  int signal = 0;      ///< that ended the command itself, else 0
};

void write_supervisor_record(const std::filesystem::path& dir, const SupervisorRecord& record);
void write_exit_record(const std::filesystem::path& dir, const ExitRecord& record);

/// Nothing if the file does not exist (yet), or is damaged, which is logged: then an attempt that
/// nobody supervises has vanished.
std::optional<SupervisorRecord> read_supervisor_record(const std::filesystem::path& dir);
std::optional<ExitRecord> read_exit_record(const std::filesystem::path& dir);

/// What to run for one attempt of a job.
struct AttemptCommand {
  std::filesystem::path dir;             ///< attempt-N; must not exist, its parent must
  std::vector<std::string> command;      ///< found in the PATH of `environment`, no shell
  std::vector<std::string> environment;  ///< "NAME=value", the whole of it
  std::filesystem::path supervisor = "/proc/self/exe";  ///< a dotresize-server
  mode_t umask = 022;                                   ///< of the command
};

/// Starts the supervisor of an attempt (supervisor.h). An attempt is alive as long as its
/// supervisor holds the lock that it inherits here, so a crash of this process at any point leaves
/// either a supervisor that is found again or none. Returns the supervisor's pid, for the caller to
/// wait for. Throws std::system_error.
pid_t start_attempt(const AttemptCommand& attempt);

enum class Liveness {
  kWaiting,  ///< it cannot be heard now: somebody else has not started it yet, or has suspended it
  kAlive,
  kRestarted,  ///< its processes are gone or end, and the next ones are started without our doing
  kExited,     ///< no process is left
  kVanished,   ///< its processes have gone without a record of their end; some may be left
};

struct AttemptStatus {
  Liveness liveness = Liveness::kAlive;
  ExitRecord exit;                      ///< kExited
  bool ran = true;                      ///< false: vanished before it had begun
  std::optional<Failure> failure = {};  ///< kRestarted: why; kExited: why, if that is known
  std::string note = {};                ///< for people: v1::Job.launcher_status
  std::string command = {};             ///< v1::Job.command
};

AttemptStatus check_attempt(const std::filesystem::path& dir);

/// Asks the supervisor, also one that is stopped, to end the attempt. False if it cannot be asked
/// (yet).
bool stop_attempt(const std::filesystem::path& dir);

/// Of a whole attempt.
inline Failure failure(const char* code, const std::string& message) {
  return {code, -1, "", "", message};
}

}  // namespace dotresize
