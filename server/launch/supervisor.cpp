#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <ctime>
#include <filesystem>
#include <iostream>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "base/files/capped_file.h"
#include "base/process/child.h"
#include "base/process/environment.h"
#include "base/process/program.h"
#include "base/text/encodings.h"
#include "server/launch/attempt.h"
#include "server/launch/process_table.h"
#include "server/launch/subcommands.h"
#include "server/store/files.h"

namespace dotresize {
namespace {

using Clock = std::chrono::steady_clock;
namespace fs = std::filesystem;

constexpr std::chrono::seconds kStopGrace{10};
constexpr std::chrono::seconds kDrainGrace{2};

/// The process that runs a command to the end of all its processes.
struct Supervisor {
  fs::path dir;
  mode_t umask = 0;  ///< the command's
  std::vector<std::string> command = {};
  pid_t main = -1;  ///< the command itself; -1: it has ended
  ExitRecord exit = {};
  std::optional<Clock::time_point> deadline = {};  ///< when the processes left are killed

  int run() {
    // This process leaves the server's session and closes its descriptors. Orphans of the command
    // become its children.
    ::setsid();
    if (::prctl(PR_SET_CHILD_SUBREAPER, 1) != 0) throw_errno("PR_SET_CHILD_SUBREAPER");
    if (::fcntl(kLockDescriptor, F_SETFD, FD_CLOEXEC) != 0) throw_errno("descriptor 3, the lock");
    ::close_range(kLockDescriptor + 1, ~0U, 0);
    sigset_t signals;
    sigemptyset(&signals);
    for (const int signal : {SIGCHLD, SIGTERM, SIGINT, SIGHUP}) sigaddset(&signals, signal);
    ::sigprocmask(SIG_BLOCK, &signals, nullptr);

    const fs::path path = dir.parent_path() / "log";
    const UniqueFd file(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
    if (!file) throw_errno("cannot open " + path.string());
    struct stat status = {};
    if (::fstat(file.get(), &status) != 0) throw_errno("cannot read the log's size");
    CappedLog log(UniqueFd(::dup(file.get())), kMaxLogBytes);
    redirect_output(log.pipe());
    write_supervisor_record(dir,
                            {::getpid(), process_start_time(::getpid()).value(), status.st_size});
    start_command();
    log.start();
    while (reap()) {
      constexpr timespec kPollWhileEnding{0, 100'000'000};
      constexpr timespec kPollElse{60, 0};
      const int signal =
          ::sigtimedwait(&signals, nullptr, deadline ? &kPollWhileEnding : &kPollElse);
      if (signal == SIGTERM || signal == SIGINT) {
        if (main > 0) ::kill(main, SIGTERM);
        end_within(kStopGrace);
      }
      if (!deadline || Clock::now() < *deadline) continue;
      for (const pid_t pid : descendants_of(::getpid())) ::kill(pid, SIGKILL);
    }
    redirect_output(file.get());  // closes the last copies of the pipe
    log.finish();
    write_exit_record(dir, exit);
    return kExitOk;
  }

  static void redirect_output(int fd) {
    if (::dup2(fd, STDOUT_FILENO) < 0 || ::dup2(fd, STDERR_FILENO) < 0) {
      throw_errno("cannot redirect to the log");
    }
  }

  /// A command that cannot be run has ended with 127, and leaves a line in the log.
  void start_command() {
    try {
      // The command must not outlive its supervisor, even one that is killed.
      Child child({.command = command, .umask = umask, .signal_at_our_end = SIGKILL});
      main = child.pid();
      child.let_go();  // reap() sees its end
    } catch (const std::system_error& error) {
      std::cerr << "dotresize-server: error: cannot run " << command.front() << ": "
                << error.code().message() << std::endl;
      exit.exit_code = kExitCannotExecute;
    }
  }

  /// Returns false when no child is left.
  bool reap() {
    while (true) {
      int status = 0;
      const pid_t pid = ::waitpid(-1, &status, WNOHANG);
      if (pid == 0) return true;
      if (pid < 0 && errno == EINTR) continue;
      if (pid < 0) return false;
      if (pid != main) continue;
      main = -1;
      if (WIFEXITED(status)) exit.exit_code = WEXITSTATUS(status);
      if (WIFSIGNALED(status)) exit.signal = WTERMSIG(status);
      end_within(kDrainGrace);
    }
  }

  void end_within(std::chrono::seconds grace) {
    const Clock::time_point end = Clock::now() + grace;
    deadline = std::min(deadline.value_or(end), end);
  }
};

}  // namespace

int supervise(int argc, char** argv) {
  const bool well_formed =
      argc >= 8 && std::string_view(argv[2]) == "--dir" && fs::path(argv[3]).is_absolute() &&
      std::string_view(argv[4]) == "--umask" && std::string_view(argv[6]) == "--";
  const auto umask = well_formed ? parse_number<mode_t>(argv[5]) : std::nullopt;
  if (!umask) {
    std::cerr << "dotresize-server supervise can only be started by dotresize-server\n";
    return kExitUsage;
  }
  leave_parent_step();
  try {
    return Supervisor{argv[3], *umask, {argv + 7, argv + argc}}.run();
  } catch (const std::exception& error) {
    std::cerr << "dotresize-server supervise: " << error.what() << '\n';
    return kExitJobFailed;
  }
}

}  // namespace dotresize
