#include "base/process/child_process.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <ctime>
#include <fstream>
#include <memory>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>

#include "base/errors.h"
#include "base/files/directory.h"
#include "base/process/environment.h"
#include "base/process/mutex.h"
#include "base/process/program.h"
#include "base/text/printable.h"

namespace dotresize {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kMaxKeptOutput = size_t{64} * 1024;
constexpr size_t kMaxCapturedOutput = size_t{64} << 20;
constexpr std::chrono::seconds kStopPatience{5};  // time from SIGTERM to SIGKILL
constexpr std::chrono::seconds kKillPatience{5};  // time from SIGKILL to the end

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

/// Child whose output is being captured.
struct Captured {
  pid_t pid = 0;
  std::optional<int> status;  ///< from waitpid; nullopt if it has not ended
  CapturedChild result;
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
  Captured child;
  child.pid = start_child(start);
  out.write_end = UniqueFd();
  err.write_end = UniqueFd();
  while ((!child.status || out.read_end || err.read_end) && !is_over()) {
    constexpr int kTickMs = 50;  // a child may close its pipes long before it ends
    std::array<pollfd, 2> polled = {
        {{out.read_end.get(), POLLIN, 0}, {err.read_end.get(), POLLIN, 0}}};
    const int ready = ::poll(polled.data(), polled.size(), kTickMs);
    if (ready > 0 && polled[0].revents != 0) {
      read_some(out.read_end, child.result.output, kMaxCapturedOutput);
    }
    if (ready > 0 && polled[1].revents != 0) read_errors(err.read_end, child.result.errors);
    if (ready == 0 && child.status) break;  // its own children may keep the pipes open
    int ended = 0;
    if (!child.status && ::waitpid(child.pid, &ended, WNOHANG) == child.pid) child.status = ended;
  }
  child.result.exit_code = child.status ? exit_code_of(*child.status) : 128 + SIGKILL;
  child.result.last_line = last_line(child.result.errors);
  return child;
}

/// Kills the child; a negative `target` is its process group. Waits for its end for some seconds: a
/// child that hangs in the kernel, in a file system that does not answer say, must not hang us too.
/// It is reaped when a later one has been killed.
void kill_and_reap(pid_t pid, pid_t target) {
  static Mutex mutex;
  static std::vector<pid_t> unreaped DOTRESIZE_GUARDED_BY(mutex);
  ::kill(target, SIGKILL);
  const auto end = Clock::now() + kKillPatience;
  pid_t reaped = 0;
  while ((reaped = ::waitpid(pid, nullptr, WNOHANG)) == 0 && Clock::now() < end) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  const Lock lock(mutex);
  std::erase_if(unreaped, [](pid_t each) { return ::waitpid(each, nullptr, WNOHANG) != 0; });
  if (reaped == 0) unreaped.push_back(pid);
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

/// Runs the child with the signal mask `blocked`, in its own process group. `signals` (a signalfd
/// of the signals that end it, and of SIGCHLD; or empty) and `stop` end it.
int run_watched(const std::vector<std::string>& command, ProgramOutput& output,
                const sigset_t& blocked, const UniqueFd& signals, const std::stop_token& stop) {
  Pipe out = make_pipe();
  Pipe err = make_pipe();
  const pid_t pid = start_in_group(command, blocked, out.write_end.get(), err.write_end.get());
  out.write_end = UniqueFd();
  err.write_end = UniqueFd();
  std::optional<int> status;                 // waitpid status, once it has ended
  std::optional<Clock::time_point> stopped;  // time of the SIGTERM
  const auto request_stop = [&] {
    if (stopped) return;
    stopped = Clock::now();
    ::kill(pid, SIGTERM);
  };
  try {
    while (!status || out.read_end || err.read_end) {
      constexpr int kTickMs = 200;
      std::array<pollfd, 3> polled = {{{signals.get(), POLLIN, 0},
                                       {out.read_end.get(), POLLIN, 0},
                                       {err.read_end.get(), POLLIN, 0}}};
      const int ready = ::poll(polled.data(), polled.size(), kTickMs);
      if (ready == 0) {
        if (status) break;  // its own children may keep the pipes open
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
        if (signal.ssi_signo != SIGCHLD && !status) request_stop();
      }
      if (!status && stop.stop_requested()) {
        request_stop();
        // Waited for however long it takes: the caller's next step is on the child's files.
        if (Clock::now() > *stopped + kStopPatience) ::kill(pid, SIGKILL);
      }
      int ended = 0;
      if (!status && ::waitpid(pid, &ended, WNOHANG) == pid) status = ended;
    }
  } catch (...) {  // from `output`
    if (!status) kill_and_reap(pid, pid);
    throw;
  }
  if (!stopped && exit_code_of(*status) == kExitCannotExecute) {
    throw ProgramMissing("cannot start " + command.front() + ": is it installed?");
  }
  return stopped ? kExitCancelled : exit_code_of(*status);
}

ProgramMissing cannot_start(const std::vector<std::string>& command) {
  return ProgramMissing("cannot start " + command.front() + ": " +
                        std::generic_category().message(errno));
}

}  // namespace

Pipe make_pipe() {
  std::array<int, 2> ends;
  require(::pipe2(ends.data(), O_CLOEXEC) == 0 ? 0 : errno, "pipe");
  return {UniqueFd(ends[0]), UniqueFd(ends[1])};
}

std::vector<char*> exec_vector(const std::vector<std::string>& strings) {
  std::vector<char*> pointers;
  pointers.reserve(strings.size() + 1);
  // The signatures of exec predate const.
  for (const std::string& string : strings) pointers.push_back(const_cast<char*>(string.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

int exit_code_of(int wait_status) {
  return WIFSIGNALED(wait_status) ? 128 + WTERMSIG(wait_status) : WEXITSTATUS(wait_status);
}

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

pid_t start_child(const ChildStart& start) {
  posix_spawn_file_actions_t actions;
  require(::posix_spawn_file_actions_init(&actions), "posix_spawn");
  const auto free_actions = [](auto* made) { ::posix_spawn_file_actions_destroy(made); };
  const std::unique_ptr<posix_spawn_file_actions_t, decltype(free_actions)> of_actions(&actions);
  posix_spawnattr_t attributes;
  require(::posix_spawnattr_init(&attributes), "posix_spawn");
  const auto free_attributes = [](auto* made) { ::posix_spawnattr_destroy(made); };
  const std::unique_ptr<posix_spawnattr_t, decltype(free_attributes)> of_attributes(&attributes);
  require(::posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0),
          "posix_spawn");
  for (const auto& [ours, number] : start.descriptors) {
    require(::posix_spawn_file_actions_adddup2(&actions, ours, number), "posix_spawn");
  }
  if (!start.directory.empty()) {
    require(::posix_spawn_file_actions_addchdir_np(&actions, start.directory.c_str()),
            "posix_spawn");
  }
  sigset_t all;
  sigfillset(&all);
  sigset_t none;
  sigemptyset(&none);
  require(::posix_spawnattr_setsigdefault(&attributes, &all), "posix_spawn");
  require(::posix_spawnattr_setsigmask(&attributes, &none), "posix_spawn");
  const int group = start.leads_group ? POSIX_SPAWN_SETPGROUP : 0;
  require(
      ::posix_spawnattr_setflags(
          &attributes, static_cast<short>(POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK | group)),
      "posix_spawn");
  pid_t pid = 0;
  require(::posix_spawnp(
              &pid, start.program.empty() ? start.command.front().c_str() : start.program.c_str(),
              &actions, &attributes, exec_vector(start.command).data(),
              start.environment.empty() ? environ : exec_vector(start.environment).data()),
          "cannot start " + start.command.front());
  return pid;
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
  const pid_t pid =
      start_child({.command = command, .descriptors = {{output.write_end.get(), STDERR_FILENO}}});
  output.write_end = UniqueFd();
  IdleTime idle(pid);
  std::string errors;
  std::optional<int> status;
  while (!status || output.read_end) {
    constexpr int kTickMs = 50;
    pollfd polled = {output.read_end.get(), POLLIN, 0};  // a closed pipe counts as silent
    const int ready = ::poll(&polled, 1, kTickMs);
    if (ready > 0) read_errors(output.read_end, errors);
    if (ready == 0 && status) break;  // its own children may keep the pipe open
    int ended = 0;
    if (!status && ::waitpid(pid, &ended, WNOHANG) == pid) status = ended;
    if (status || !idle_limit || idle.passed() < *idle_limit) continue;
    kill_and_reap(pid, pid);
    return {128 + SIGKILL, last_line(errors), /*hung=*/true};
  }
  return {exit_code_of(*status), last_line(errors)};
}

CapturedChild capture_child(const std::vector<std::string>& command, std::chrono::seconds limit) {
  const auto end = Clock::now() + limit;
  Captured child = capture({.command = command}, [&] { return Clock::now() >= end; });
  if (!child.status) kill_and_reap(child.pid, child.pid);
  return std::move(child.result);
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
  Captured child = capture(std::move(start),
                           [&] { return question.stop.stop_requested() || Clock::now() >= end; });
  if (child.status) return std::move(child.result);
  const bool goes_on = question.stop.stop_requested() && question.outlives_stop;
  if (!goes_on) kill_and_reap(child.pid, -child.pid);
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

pid_t start_in_group(const std::vector<std::string>& command, const sigset_t& signals,
                     int standard_output, int standard_error) {
  const std::vector<char*> arguments = exec_vector(command);
  const pid_t pid = fork();
  if (pid < 0) throw cannot_start(command);
  if (pid > 0) return pid;
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  setpgid(0, 0);
  dup2(open("/dev/null", O_RDONLY), STDIN_FILENO);
  dup2(standard_output, STDOUT_FILENO);
  dup2(standard_error, STDERR_FILENO);
  sigprocmask(SIG_SETMASK, &signals, nullptr);
  execvp(arguments[0], arguments.data());
  _exit(kExitCannotExecute);
}

int run_program(const std::vector<std::string>& command, ProgramOutput& output) {
  const ChildSignals signals;
  return run_watched(command, output, signals.previous, signals.fd, {});
}

int run_program(const std::vector<std::string>& command, ProgramOutput& output,
                const std::stop_token& stop) {
  sigset_t none;
  sigemptyset(&none);
  return run_watched(command, output, none, UniqueFd(), stop);
}

std::string worker_fault() {
  constexpr std::chrono::seconds kPatience{20};
  const std::vector<std::string> command = {worker_program().string(), "--version"};
  const CapturedChild probe = capture_child(command, kPatience);
  if (probe.exit_code == kExitOk) return "";
  return command[0] + " --version ends with exit code " + std::to_string(probe.exit_code) +
         (probe.last_line.empty() ? "" : ": " + printable(probe.last_line));
}

}  // namespace dotresize
