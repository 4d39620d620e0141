#include "server/attempt_process.h"

#include <fcntl.h>
#include <spawn.h>

#include <csignal>
#include <stdexcept>
#include <system_error>

#include "server/files.h"
#include "server/process_table.h"

namespace dotresize {
namespace {

namespace fs = std::filesystem;

void require(int error, const char* what) {
  if (error != 0) throw std::system_error(error, std::generic_category(), what);
}

/// What posix_spawn does in the child before it runs the program.
class SpawnPlan {
 public:
  SpawnPlan(const fs::path& directory, int lock) {
    require(posix_spawn_file_actions_init(&actions_), "posix_spawn");
    require(posix_spawnattr_init(&attributes_), "posix_spawn");
    require(posix_spawn_file_actions_adddup2(&actions_, lock, kLockDescriptor), "posix_spawn");
    require(posix_spawn_file_actions_addopen(&actions_, 0, "/dev/null", O_RDONLY, 0),
            "posix_spawn");
    require(posix_spawn_file_actions_addchdir_np(&actions_, directory.c_str()), "posix_spawn");
    sigset_t all;
    sigfillset(&all);
    sigset_t none;
    sigemptyset(&none);
    require(posix_spawnattr_setsigdefault(&attributes_, &all), "posix_spawn");
    require(posix_spawnattr_setsigmask(&attributes_, &none), "posix_spawn");
    require(posix_spawnattr_setflags(&attributes_, POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK),
            "posix_spawn");
  }
  SpawnPlan(const SpawnPlan&) = delete;
  SpawnPlan& operator=(const SpawnPlan&) = delete;
  ~SpawnPlan() {
    posix_spawn_file_actions_destroy(&actions_);
    posix_spawnattr_destroy(&attributes_);
  }

  pid_t spawn(const fs::path& program, std::vector<std::string> arguments,
              std::vector<std::string> environment) const {
    pid_t pid = 0;
    require(::posix_spawn(&pid, program.c_str(), &actions_, &attributes_,
                          pointers(arguments).data(), pointers(environment).data()),
            "cannot start the supervisor");
    return pid;
  }

 private:
  static std::vector<char*> pointers(std::vector<std::string>& strings) {
    std::vector<char*> result;
    for (std::string& string : strings) result.push_back(string.data());
    result.push_back(nullptr);
    return result;
  }

  posix_spawn_file_actions_t actions_;
  posix_spawnattr_t attributes_;
};

}  // namespace

pid_t start_attempt(const AttemptCommand& attempt) {
  fs::create_directory(attempt.dir);
  const UniqueFd lock = try_lock_file(attempt.dir / "lock");
  if (!lock) throw std::runtime_error(attempt.dir.string() + " is locked already");
  std::vector<std::string> arguments = {"dotresize-server", "supervise", "--dir",
                                        attempt.dir.string(), "--"};
  arguments.insert(arguments.end(), attempt.command.begin(), attempt.command.end());
  return SpawnPlan(attempt.dir, lock.get())
      .spawn(attempt.supervisor, arguments, attempt.environment);
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
