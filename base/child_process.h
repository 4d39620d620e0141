#pragma once

#include <spawn.h>
#include <sys/types.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

namespace dotresize {

/// How a child ends that could not execute its program, as shells have it.
inline constexpr int kExitCannotExecute = 127;

/// `strings` as exec and posix_spawn take them: a pointer to each, then a null pointer. `strings`
/// must live as long.
std::vector<char*> exec_vector(const std::vector<std::string>& strings);

/// The exit code in what waitpid has written, or 128 + signal.
int exit_code_of(int wait_status);

/// Waits for the child's end; its exit code, as of exit_code_of().
int wait_for_child(pid_t pid);

/// The signals that end a program and its children (SIGINT, SIGTERM, SIGHUP), and SIGCHLD.
sigset_t child_signals();

/// How a child starts: without standard input, no signal blocked or ignored, and what is asked for
/// before run(). Everything throws std::system_error.
class ChildProcess {
 public:
  ChildProcess();
  ~ChildProcess();
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  /// The child has our descriptor `fd` as its `number`.
  void give_descriptor(int fd, int number);
  void change_directory(const std::filesystem::path& directory);

  /// Starts `program` (without a '/': found through PATH) and returns its pid, to be waited for.
  /// `environment` is the whole of it, "NAME=value"; null: that of this process.
  pid_t run(const std::string& program, const std::vector<std::string>& arguments,
            const std::vector<std::string>* environment = nullptr) const;

 private:
  posix_spawn_file_actions_t actions_;
  posix_spawnattr_t attributes_;
};

struct ChildResult {
  int exit_code = 0;      ///< as of exit_code_of()
  std::string last_line;  ///< of its stderr
};

/// Runs a program (argument vector, found through PATH, no shell) to its end, without standard
/// input. Its stdout goes where ours goes, its stderr is read for the last line. Throws
/// std::system_error if it cannot be started.
ChildResult run_child(const std::vector<std::string>& command);

struct CapturedChild {
  int exit_code = 0;      ///< as of exit_code_of()
  std::string output;     ///< its stdout, 64 MiB of it at most
  std::string errors;     ///< its stderr, 64 KiB of it at most
  std::string last_line;  ///< of its stderr
};

/// Runs a program (argument vector, found through PATH, no shell) to its end, without standard
/// input, and reads what it writes. It is killed once `limit` is over. Throws std::system_error if
/// it cannot be started.
CapturedChild capture_child(const std::vector<std::string>& command, std::chrono::seconds limit);

/// The command line that starts `ranks` processes of `program` (with its arguments) on this machine
/// with OpenMPI, for one process without mpirun. No rank listens on other interfaces than the
/// loopback device; mpirun itself does. `shared_memory`: an existing directory in memory for the
/// messages of the processes and the session files of OpenMPI, which killed processes leave behind;
/// empty: OpenMPI's own choice. The only place that knows options of mpirun.
std::vector<std::string> launch_command(int ranks, const std::filesystem::path& shared_memory,
                                        const std::vector<std::string>& program);

/// Becomes `command` (looked up in PATH): its exit code is this program's. Returns only by throwing
/// ProgramMissing.
[[noreturn]] void exec_program(const std::vector<std::string>& command);

/// Starts `command` in a process group of its own, without standard input, with these signals
/// blocked. It does not outlive this thread. The caller waits for it; one that cannot be executed
/// ends with kExitCannotExecute. Throws ProgramMissing.
pid_t start_in_group(const std::vector<std::string>& command, const sigset_t& signals,
                     int standard_output, int standard_error);

/// Takes what a program writes, and the time that passes meanwhile.
class ProgramOutput {
 public:
  virtual ~ProgramOutput() = default;
  virtual void standard_output(std::string_view bytes) = 0;
  virtual void standard_error(std::string_view bytes) = 0;
  /// Several times a second while nothing is written.
  virtual void tick() = 0;
};

/// Runs `command` to its end, without standard input and in a process group of its own, hands what
/// it writes to `output`, and returns its exit code. SIGINT, SIGTERM and SIGHUP become one SIGTERM
/// for it, and the result is then kExitCancelled. It does not outlive this program. Throws
/// ProgramMissing. Call before any other thread is started.
int run_program(const std::vector<std::string>& command, ProgramOutput& output);

/// The same for a program with other threads: `stop` takes the place of signals, and becomes
/// SIGKILL after five seconds. The child does not outlive this thread.
int run_program(const std::vector<std::string>& command, ProgramOutput& output,
                const std::stop_token& stop);

}  // namespace dotresize
