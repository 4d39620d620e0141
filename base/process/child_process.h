#pragma once

#include <sys/types.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "base/errors.h"
#include "base/files/unique_fd.h"
#include "base/process/child.h"

namespace dotresize {

/// Takes the signals that end a program and its children (SIGINT, SIGTERM, SIGHUP), and SIGCHLD,
/// for its lifetime: they are blocked in this thread and read from a descriptor. Throws
/// std::system_error.
struct ChildSignals {
  ChildSignals();
  ~ChildSignals();
  ChildSignals(const ChildSignals&) = delete;
  ChildSignals& operator=(const ChildSignals&) = delete;

  UniqueFd fd;             ///< a signalfd that does not block
  sigset_t previous = {};  ///< mask of this thread before
};

/// Returns the last line of a program's output that is not empty, without its newline.
std::string last_line(std::string text);

/// Time for which a child and its descendants have used no processor. Time in which this process
/// was stopped does not count.
class IdleTime {
 public:
  explicit IdleTime(pid_t pid) : pid_(pid) {}

  /// Call several times a second.
  std::chrono::steady_clock::duration passed();

 private:
  pid_t pid_;
  std::chrono::nanoseconds used_{-1};
  std::chrono::steady_clock::time_point looked_ = std::chrono::steady_clock::now();
  std::chrono::steady_clock::duration idle_{};
};

struct ChildResult {
  int exit_code = 0;      ///< see exit_code_of()
  std::string last_line;  ///< last line of stderr
  bool hung = false;      ///< killed, because it had used no processor for too long
};

/// Runs a program (argument vector, found through PATH, no shell) to its end, without standard
/// input. Its stdout goes to ours. Its stderr is read for the last line. Kills it if neither it nor
/// its children have used a processor for `idle_limit`: it is stopped, or waits for what does not
/// come. Time in which this process itself was stopped does not count. Throws std::system_error if
/// it cannot be started.
ChildResult run_child(const std::vector<std::string>& command,
                      std::optional<std::chrono::seconds> idle_limit = {});

struct CapturedChild {
  int exit_code = 0;      ///< see exit_code_of()
  std::string output;     ///< stdout, the first 64 MiB
  std::string errors;     ///< stderr, the last 64 KiB
  std::string last_line;  ///< last line of `errors`
};

/// Runs a program (argument vector, found through PATH, no shell) to its end, without standard
/// input, and reads its output. Processes that it leaves behind with its standard output are not
/// waited for. Kills it when `limit` has passed, and waits for its end for a few seconds more.
/// Throws std::system_error if it cannot be started.
CapturedChild capture_child(const std::vector<std::string>& command, std::chrono::seconds limit);

/// Question to a program, and how long it may take.
struct ChildQuestion {
  std::vector<std::string> command;      ///< argument vector, found through PATH, no shell
  std::vector<std::string> environment;  ///< complete, as "NAME=value"
  std::string input;                     ///< standard input
  std::chrono::seconds limit{60};
  std::stop_token stop;  ///< ends the waiting
  /// Descriptor that the program and its children inherit, as number `kept_number`; -1: none.
  int kept_descriptor = -1;
  int kept_number = 3;
  bool outlives_stop = false;  ///< a stop leaves the program alone, to end by itself
};

/// Version of capture_child() for a program in its own process group, which is killed when the
/// limit has passed and, unless `outlives_stop`, on a stop; then it has a few seconds to end.
/// Processes that it leaves behind with its standard output are not waited for. Returns nullopt if
/// it has not ended in time or before the stop. Throws std::system_error if it cannot be started.
std::optional<CapturedChild> ask_child(const ChildQuestion& question);

/// Returns the command line that starts `ranks` processes of `program` (with its arguments) on this
/// machine with OpenMPI. A single process starts without mpirun. Ranks listen only on the loopback
/// device; mpirun itself also listens on others. `shared_memory`: an existing directory in memory
/// for the processes' messages and OpenMPI's session files, which killed processes leave behind;
/// empty: OpenMPI's own choice. This is the only place that knows mpirun's options.
std::vector<std::string> launch_command(int ranks, const std::filesystem::path& shared_memory,
                                        const std::vector<std::string>& program);

/// Replaces this process with `command` (found through PATH), whose exit code becomes this
/// program's. Throws ProgramMissing if it cannot be executed.
[[noreturn]] void exec_program(const std::vector<std::string>& command);
/// Version with a standard input. Throws std::system_error too.
[[noreturn]] void exec_program(const std::vector<std::string>& command, const std::string& input);

/// Receives a program's output.
class ProgramOutput {
 public:
  virtual ~ProgramOutput() = default;
  virtual void standard_output(std::string_view bytes) = 0;
  virtual void standard_error(std::string_view bytes) = 0;
  /// Called several times a second while nothing is written.
  virtual void tick() = 0;
};

/// Runs `command` to its end, without standard input, in its own process group. Passes its output
/// to `output` and returns its exit code. SIGINT, SIGTERM and SIGHUP become one SIGTERM for it, and
/// the result is then kExitCancelled. It does not outlive this program. Throws ProgramMissing. Call
/// before any other thread is started.
int run_program(const std::vector<std::string>& command, ProgramOutput& output);

/// Version for a program with other threads: `stop` replaces the signals. If the child has not
/// ended five seconds after the SIGTERM, it gets SIGKILL. The child does not outlive this thread.
int run_program(const std::vector<std::string>& command, ProgramOutput& output,
                const std::stop_token& stop);

/// Runs the worker. Its fault is why it does not start; for example, it may lack a library. Throws
/// ProgramMissing if there is no worker.
Verdict check_worker();

}  // namespace dotresize
