#include "server/attempt_process.h"

#include <csignal>
#include <stdexcept>

#include "base/child_process.h"
#include "server/files.h"
#include "server/process_table.h"

namespace dotresize {
namespace fs = std::filesystem;

pid_t start_attempt(const AttemptCommand& attempt) {
  fs::create_directory(attempt.dir);
  const UniqueFd lock = try_lock_file(attempt.dir / "lock");
  if (!lock) throw std::runtime_error(attempt.dir.string() + " is locked already");
  std::vector<std::string> arguments = {"dotresize-server", "supervise", "--dir",
                                        attempt.dir.string(), "--"};
  arguments.insert(arguments.end(), attempt.command.begin(), attempt.command.end());
  ChildProcess supervisor;
  supervisor.give_descriptor(lock.get(), kLockDescriptor);
  supervisor.change_directory(attempt.dir);
  return supervisor.run(attempt.supervisor.string(), arguments, &attempt.environment);
}

AttemptStatus check_attempt(const fs::path& dir) {
  if (!fs::exists(dir)) return {Liveness::kVanished, {}};
  if (!try_lock_file(dir / "lock")) return {Liveness::kAlive, {}};
  const std::optional<ExitRecord> exit = read_exit_record(dir);
  if (!exit) return {Liveness::kVanished, {}};
  return {Liveness::kExited, *exit};
}

bool stop_attempt(const fs::path& dir) {
  const std::optional<SupervisorRecord> supervisor = read_supervisor_record(dir);
  return supervisor && signal_process(supervisor->pid, supervisor->start_time, SIGTERM);
}

}  // namespace dotresize
