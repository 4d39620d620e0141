#include "base/process/child_process.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <ctime>
#include <fstream>
#include <optional>
#include <system_error>
#include <utility>

#include "base/errors.h"
#include "base/files/directory.h"
#include "base/process/program.h"
#include "base/text/printable.h"

namespace dotresize {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kMaxKeptOutput = size_t{64} * 1024;
constexpr size_t kMaxCapturedOutput = size_t{64} << 20;
constexpr std::chrono::seconds kStopPatience{5};  // time from SIGTERM to SIGKILL

void require(int error, const std::string& what) {
  if (error != 0) throw std::system_error(error, std::generic_category(), what);
}

/// Reads once from the pipe. `text` grows to `most` bytes at most. Closes `pipe` at its end.
void read_some(UniqueFd& pipe, std::string& text, size_t most) {
  std::array<char, 16384> buffer;
  const ssize_t got = ::read(pipe.get(), buffer.data(), buffer.size());
  if (got < 0 && errno == EINTR) return;
  if (got <= 0) {
    pipe = UniqueFd();
  } else {
    text.append(buffer.data(), std::min(static_cast<size_t>(got), most - text.size()));
  }
}

/// Reads once from the pipe of standard error. `text` keeps the end of it.
void read_errors(UniqueFd& pipe, std::string& text) {
  read_some(pipe, text, std::string::npos);
  if (text.size() > kMaxKeptOutput) text.erase(0, text.size() - kMaxKeptOutput);
}

struct Captured {
  Child child;
  bool ended = false;
  CapturedChild result = {};
};

/// Starts the child and reads its output until it has ended and nothing more comes, or until
/// `is_over`.
template <class IsOver>
Captured capture(ChildStart start, const IsOver& is_over) {
  Pipe out = make_pipe();
  Pipe err = make_pipe();
  // First, because another one may take the number of a pipe's write end.
  start.descriptors.insert(start.descriptors.begin(), {{out.write_end.get(), STDOUT_FILENO},
                                                       {err.write_end.get(), STDERR_FILENO}});
  Captured captured{Child(start)};
  out.write_end = UniqueFd();
  err.write_end = UniqueFd();
  CapturedChild& result = captured.result;
  for (;;) {
    captured.ended = captured.child.exit_code().has_value();
    if ((captured.ended && !out.read_end && !err.read_end) || is_over()) break;
    constexpr int kTickMs = 50;  // a child may close its pipes long before it ends
    std::array<pollfd, 2> polled = {
        {{out.read_end.get(), POLLIN, 0}, {err.read_end.get(), POLLIN, 0}}};
    const int ready = ::poll(polled.data(), polled.size(), kTickMs);
    if (ready > 0 && polled[0].revents != 0) {
      read_some(out.read_end, result.output, kMaxCapturedOutput);
    }
    if (ready > 0 && polled[1].revents != 0) read_errors(err.read_end, result.errors);
    if (ready == 0 && captured.ended) break;  // its own children may keep the pipes open
  }
  result.exit_code = captured.ended ? *captured.child.exit_code() : 128 + SIGKILL;
  result.last_line = last_line(result.errors);
  return captured;
}

/// Returns the processor time of a process and its descendants.
std::chrono::nanoseconds processor_time(pid_t pid) {
  clockid_t clock = 0;
  timespec used = {};
  std::chrono::nanoseconds time{0};
  if (::clock_getcpuclockid(pid, &clock) == 0 && ::clock_gettime(clock, &used) == 0) {
    time = std::chrono::seconds(used.tv_sec) + std::chrono::nanoseconds(used.tv_nsec);
  }
  const std::filesystem::path tasks = "/proc/" + std::to_string(pid) + "/task";
  std::error_code gone;
  for (const auto& task : entries_of(tasks, gone)) {
    std::ifstream children(task.path() / "children");
    for (pid_t child = 0; children >> child;) time += processor_time(child);
  }
  return time;
}

/// Returns a file without a name that is read from its beginning.
UniqueFd file_in_memory(const std::string& content) {
  UniqueFd file(::memfd_create("input", MFD_CLOEXEC));
  require(file ? 0 : errno, "memfd_create");
  size_t written = 0;
  while (written < content.size()) {
    const ssize_t more = ::write(file.get(), content.data() + written, content.size() - written);
    if (more < 0 && errno == EINTR) continue;
    require(more > 0 ? 0 : errno, "memory for a program's input");
    written += static_cast<size_t>(more);
  }
  require(::lseek(file.get(), 0, SEEK_SET) == 0 ? 0 : errno, "lseek");
  return file;
}

ProgramMissing not_installed(const std::vector<std::string>& command) {
  return ProgramMissing("cannot start " + command.front() + ": is it installed?");
}

/// Starts a program that does not outlive this thread, in its own process group.
Child start_watched(const std::vector<std::string>& command, const Pipe& out, const Pipe& err) {
  try {
    return Child({.command = command,
                  .descriptors = {{out.write_end.get(), STDOUT_FILENO},
                                  {err.write_end.get(), STDERR_FILENO}},
                  .leads_group = true,
                  .signal_at_our_end = SIGTERM});
  } catch (const std::system_error&) {
    throw not_installed(command);
  }
}

/// Runs the child in its own process group. `signals` (a signalfd of the signals that end it, and
/// of SIGCHLD; or empty) and `stop` end it.
int run_watched(const std::vector<std::string>& command, ProgramOutput& output,
                const UniqueFd& signals, const std::stop_token& stop) {
  Pipe out = make_pipe();
  Pipe err = make_pipe();
  Child child = start_watched(command, out, err);
  out.write_end = UniqueFd();
  err.write_end = UniqueFd();
  std::optional<int> exit_code;
  std::optional<Clock::time_point> stopped;  // time of the SIGTERM
  const auto request_stop = [&] {
    if (stopped) return;
    stopped = Clock::now();
    child.signal(SIGTERM);
  };
  while (!(exit_code = child.exit_code()) || out.read_end || err.read_end) {
    constexpr int kTickMs = 200;
    std::array<pollfd, 3> polled = {{{signals.get(), POLLIN, 0},
                                     {out.read_end.get(), POLLIN, 0},
                                     {err.read_end.get(), POLLIN, 0}}};
    const int ready = ::poll(polled.data(), polled.size(), kTickMs);
    if (ready == 0) {
      if (exit_code) break;  // its own children may keep the pipes open
      output.tick();
    }
    std::string bytes;
    if (ready > 0 && polled[1].revents != 0) read_some(out.read_end, bytes, std::string::npos);
    if (!bytes.empty()) output.standard_output(bytes);
    bytes.clear();
    if (ready > 0 && polled[2].revents != 0) read_some(err.read_end, bytes, std::string::npos);
    if (!bytes.empty()) output.standard_error(bytes);
    signalfd_siginfo signal = {};
    while (ready > 0 && polled[0].revents != 0 &&
           ::read(signals.get(), &signal, sizeof signal) == sizeof signal) {
      if (signal.ssi_signo != SIGCHLD && !exit_code) request_stop();
    }
    if (exit_code || !stop.stop_requested()) continue;
    request_stop();
    // Waited for however long it takes: the caller's next step is on the child's files.
    if (Clock::now() > *stopped + kStopPatience) child.kill();
  }
  if (!stopped && *exit_code == kExitCannotExecute) throw not_installed(command);
  return stopped ? kExitCancelled : *exit_code;
}

ProgramMissing cannot_start(const std::vector<std::string>& command) {
  return ProgramMissing("cannot start " + command.front() + ": " +
                        std::generic_category().message(errno));
}

}  // namespace

ChildSignals::ChildSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGCHLD}) sigaddset(&signals, signal);
  fd = UniqueFd(::signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK));
  require(fd ? 0 : errno, "signalfd");
  sigprocmask(SIG_BLOCK, &signals, &previous);
}

ChildSignals::~ChildSignals() { sigprocmask(SIG_SETMASK, &previous, nullptr); }

std::string last_line(std::string text) {
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text.substr(text.find_last_of('\n') + 1);
}

Clock::duration IdleTime::passed() {
  constexpr std::chrono::milliseconds kLook{500};
  const Clock::time_point now = Clock::now();
  if (now < looked_ + kLook) return idle_;
  const std::chrono::nanoseconds used = processor_time(pid_);
  // A longer time since the last look means that this process was stopped.
  idle_ += std::min<Clock::duration>(now - std::exchange(looked_, now), 2 * kLook);
  if (std::exchange(used_, used) != used) idle_ = {};
  return idle_;
}

ChildResult run_child(const std::vector<std::string>& command,
                      std::optional<std::chrono::seconds> idle_limit) {
  Pipe output = make_pipe();
  Child child({.command = command, .descriptors = {{output.write_end.get(), STDERR_FILENO}}});
  output.write_end = UniqueFd();
  IdleTime idle(child.pid());
  std::string errors;
  std::optional<int> exit_code;
  while (!(exit_code = child.exit_code()) || output.read_end) {
    constexpr int kTickMs = 50;
    pollfd polled = {output.read_end.get(), POLLIN, 0};  // a closed pipe counts as silent
    const int ready = ::poll(&polled, 1, kTickMs);
    if (ready > 0) read_errors(output.read_end, errors);
    if (ready == 0 && exit_code) break;  // its own children may keep the pipe open
    if (exit_code || !idle_limit || idle.passed() < *idle_limit) continue;
    return {128 + SIGKILL, last_line(errors), /*hung=*/true};
  }
  return {*exit_code, last_line(errors)};
}

CapturedChild capture_child(const std::vector<std::string>& command, std::chrono::seconds limit) {
  const auto end = Clock::now() + limit;
  return capture({.command = command}, [&] { return Clock::now() >= end; }).result;
}

std::optional<CapturedChild> ask_child(const ChildQuestion& question) {
  const UniqueFd input = file_in_memory(question.input);
  ChildStart start = {.command = question.command,
                      .environment = question.environment,
                      .descriptors = {{input.get(), STDIN_FILENO}},
                      .leads_group = true};
  if (question.kept_descriptor >= 0) {
    start.descriptors.emplace_back(question.kept_descriptor, question.kept_number);
  }
  const auto end = Clock::now() + question.limit;
  Captured asked = capture(std::move(start),
                           [&] { return question.stop.stop_requested() || Clock::now() >= end; });
  if (asked.ended) return std::move(asked.result);
  if (question.stop.stop_requested() && question.outlives_stop) asked.child.let_go();
  return std::nullopt;
}

std::vector<std::string> launch_command(int ranks, const std::filesystem::path& shared_memory,
                                        const std::vector<std::string>& program) {
  if (ranks == 1) {
    // MPI then starts no daemon and opens no socket.
    std::vector<std::string> alone = {"env", "OMPI_MCA_ess_singleton_isolated=1",
                                      "OMPI_MCA_pml=ob1", "OMPI_MCA_btl=self"};
    if (!shared_memory.empty()) {
      alone.emplace_back("OMPI_MCA_orte_tmpdir_base=" + shared_memory.string());
    }
    alone.insert(alone.end(), program.begin(), program.end());
    return alone;
  }
  std::vector<std::string> command = {"mpirun"};
  if (geteuid() == 0) command.emplace_back("--allow-run-as-root");
  const std::vector<std::string> options = {
      // There may be fewer cores than ranks. Ranks then share them, and none is bound to one.
      "--oversubscribe", "--bind-to", "none",
      // All ranks run on this machine, also within an allocation of others.
      "--mca", "plm", "isolated", "--mca", "ras", "^slurm,gridengine,tm,lsf",
      // Ranks exchange messages through shared memory and cannot be reached from outside.
      "--mca", "pml", "ob1", "--mca", "btl", "self,vader", "--mca", "oob_tcp_if_include", "lo",
      // Containers may forbid ranks to read each other's memory, so messages are copied through
      // buffers.
      "--mca", "btl_vader_single_copy_mechanism", "none"};
  command.insert(command.end(), options.begin(), options.end());
  if (!shared_memory.empty()) {
    command.insert(command.end(), {"--mca", "btl_vader_backing_directory", shared_memory.string(),
                                   "--mca", "orte_tmpdir_base", shared_memory.string()});
  }
  command.insert(command.end(), {"-np", std::to_string(ranks)});
  command.insert(command.end(), program.begin(), program.end());
  return command;
}

void exec_program(const std::vector<std::string>& command) {
  execvp(command.front().c_str(), exec_vector(command).data());
  throw cannot_start(command);
}

void exec_program(const std::vector<std::string>& command, const std::string& input) {
  const UniqueFd file = file_in_memory(input);
  require(::dup2(file.get(), STDIN_FILENO) < 0 ? errno : 0, "dup2");
  // The file has that number already if this program was started without standard input.
  require(::fcntl(STDIN_FILENO, F_SETFD, 0) != 0 ? errno : 0, "fcntl");
  exec_program(command);
}

int run_program(const std::vector<std::string>& command, ProgramOutput& output) {
  const ChildSignals signals;
  return run_watched(command, output, signals.fd, {});
}

int run_program(const std::vector<std::string>& command, ProgramOutput& output,
                const std::stop_token& stop) {
  return run_watched(command, output, UniqueFd(), stop);
}

Verdict check_worker() {
  constexpr std::chrono::seconds kPatience{20};
  const std::vector<std::string> command = {worker_program().string(), "--version"};
  const CapturedChild probe = capture_child(command, kPatience);
  if (probe.exit_code == kExitOk) return {};
  return Verdict::with_fault(command[0] + " --version ends with exit code " +
                             std::to_string(probe.exit_code) +
                             (probe.last_line.empty() ? "" : ": " + printable(probe.last_line)));
}

}  // namespace dotresize
