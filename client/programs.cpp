#include "client/programs.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <system_error>

#include "base/child_process.h"
#include "base/errors.h"
#include "base/exit_codes.h"

namespace dotresize {

namespace {

ProgramMissing cannot_start(const std::string& program) {
  return ProgramMissing("cannot start " + program + ": " + std::generic_category().message(errno));
}

/// Between fork and exec. Never returns.
[[noreturn]] void become_child(const std::vector<char*>& arguments, const sigset_t& signals) {
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  setpgid(0, 0);
  dup2(open("/dev/null", O_RDONLY), STDIN_FILENO);
  sigprocmask(SIG_SETMASK, &signals, nullptr);
  execvp(arguments[0], arguments.data());
  _exit(kExitCannotExecute);
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
    return exit_code_of(status);
  }
}

}  // namespace

void exec_program(const std::vector<std::string>& command) {
  execvp(command.front().c_str(), exec_vector(command).data());
  throw cannot_start(command.front());
}

int run_program(const std::vector<std::string>& command) {
  sigset_t watched;
  sigemptyset(&watched);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGCHLD}) sigaddset(&watched, signal);
  sigset_t previous;
  sigprocmask(SIG_BLOCK, &watched, &previous);
  const std::vector<char*> arguments = exec_vector(command);
  const pid_t child = fork();
  if (child < 0) throw cannot_start(command.front());
  if (child == 0) become_child(arguments, previous);
  const int code = wait_passing_signals(child, watched);
  sigprocmask(SIG_SETMASK, &previous, nullptr);
  if (code == kExitCannotExecute) {
    throw ProgramMissing("cannot start " + command.front() + ": is it installed?");
  }
  return code;
}

}  // namespace dotresize
