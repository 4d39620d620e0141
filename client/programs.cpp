#include "client/programs.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <system_error>

#include "base/exit_codes.h"

namespace dotresize {

namespace fs = std::filesystem;
namespace {

constexpr int kCannotExecute = 127;  // as shells have it

}  // namespace

fs::path worker_program() {
  const char* named = std::getenv("DOTRESIZE_WORKER");
  const fs::path worker =
      named != nullptr && *named != '\0'
          ? fs::absolute(named)
          : fs::read_symlink("/proc/self/exe").parent_path() / "dotresize-worker";
  if (access(worker.c_str(), X_OK) != 0) {
    throw ProgramMissing(worker.string() + ": " + std::generic_category().message(errno) +
                         "; DOTRESIZE_WORKER can name the dotresize-worker to use");
  }
  return worker;
}

namespace {

std::vector<char*> argument_vector(const std::vector<std::string>& command) {
  std::vector<char*> arguments;
  for (const std::string& argument : command) {
    arguments.push_back(const_cast<char*>(argument.c_str()));  // execvp's signature predates const
  }
  arguments.push_back(nullptr);
  return arguments;
}

ProgramMissing cannot_start(const std::string& program) {
  return ProgramMissing("cannot start " + program + ": " + std::generic_category().message(errno));
}

/// Between fork and exec. Never returns.
[[noreturn]] void become_child(const std::vector<char*>& arguments, const sigset_t& signals) {
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  setpgid(0, 0);
  const int nothing = open("/dev/null", O_RDONLY);
  dup2(nothing, STDIN_FILENO);
  sigprocmask(SIG_SETMASK, &signals, nullptr);
  execvp(arguments[0], arguments.data());
  _exit(kCannotExecute);
}

/// Waits for the child; signals that ask us to stop are passed on once, as SIGTERM.
int wait_passing_signals(pid_t child, const sigset_t& watched) {
  bool stopped = false;
  for (;;) {
    int signal = 0;
    sigwait(&watched, &signal);
    if (signal != SIGCHLD && !stopped) {
      stopped = true;
      kill(child, SIGTERM);
    }
    int status = 0;
    if (signal != SIGCHLD || waitpid(child, &status, WNOHANG) != child) continue;
    if (stopped) return kExitCancelled;
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  }
}

}  // namespace

void exec_program(const std::vector<std::string>& command) {
  execvp(command.front().c_str(), argument_vector(command).data());
  throw cannot_start(command.front());
}

int run_program(const std::vector<std::string>& command) {
  sigset_t watched;
  sigemptyset(&watched);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGCHLD}) sigaddset(&watched, signal);
  sigset_t previous;
  sigprocmask(SIG_BLOCK, &watched, &previous);
  const std::vector<char*> arguments = argument_vector(command);
  const pid_t child = fork();
  if (child < 0) throw cannot_start(command.front());
  if (child == 0) become_child(arguments, previous);
  const int code = wait_passing_signals(child, watched);
  sigprocmask(SIG_SETMASK, &previous, nullptr);
  if (code == kCannotExecute) {
    throw ProgramMissing("cannot start " + command.front() + ": is it installed?");
  }
  return code;
}

}  // namespace dotresize
