#include "base/process/child.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <system_error>
#include <thread>

#include "base/process/mutex.h"

namespace dotresize {
namespace {

constexpr std::chrono::seconds kKillPatience{5};  // time from SIGKILL to the end
constexpr int kHighDescriptor = 64;               // above all that children are given

/// All that the child needs between vfork() and exec, where it must not allocate: it has the memory
/// of this process.
struct Prepared {
  const ChildStart& start;
  const char* program;
  char* const* arguments;
  char* const* environment;
  pid_t parent;
  int report;  ///< pipe that takes the errno of a failure; exec closes it
};

bool redirect(int ours, int number) {
  if (ours == number) return ::fcntl(ours, F_SETFD, 0) == 0;  // exec would close it
  return ::dup2(ours, number) == number;
}

bool set_up(const Prepared& prepared) {
  const ChildStart& start = prepared.start;
  struct sigaction standard = {};
  standard.sa_handler = SIG_DFL;
  for (int number = 1; number < NSIG; ++number) ::sigaction(number, &standard, nullptr);
  if (start.leads_group && ::setpgid(0, 0) != 0) return false;
  if (start.signal_at_our_end != 0) {
    if (::prctl(PR_SET_PDEATHSIG, start.signal_at_our_end) != 0) return false;
    if (::getppid() != prepared.parent) ::_exit(kExitCannotExecute);  // ended meanwhile
  }
  const int no_input = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  if (no_input < 0 || !redirect(no_input, STDIN_FILENO)) return false;
  for (const auto& [ours, number] : start.descriptors) {
    if (!redirect(ours, number)) return false;
  }
  if (!start.directory.empty() && ::chdir(start.directory.c_str()) != 0) return false;
  if (start.umask) ::umask(*start.umask);
  sigset_t none;
  sigemptyset(&none);
  return ::sigprocmask(SIG_SETMASK, &none, nullptr) == 0;
}

[[noreturn]] void become(const Prepared& prepared) {
  if (set_up(prepared)) {
    ::execvpe(prepared.program, prepared.arguments, prepared.environment);
  }
  const int error = errno;
  [[maybe_unused]] const auto written = ::write(prepared.report, &error, sizeof error);
  ::_exit(kExitCannotExecute);
}

/// vfork(), unlike fork(), copies no page tables: a worker may have mapped a whole model.
[[gnu::noinline]] pid_t start_process(const Prepared& prepared) {
  const pid_t pid = ::vfork();
  if (pid == 0) become(prepared);
  return pid;
}

void reap_later(pid_t pid) {
  static Mutex mutex;
  static std::vector<pid_t> unreaped DOTRESIZE_GUARDED_BY(mutex);
  const Lock lock(mutex);
  std::erase_if(unreaped, [](pid_t each) { return ::waitpid(each, nullptr, WNOHANG) != 0; });
  if (pid > 0) unreaped.push_back(pid);
}

}  // namespace

Pipe make_pipe() {
  std::array<int, 2> ends;
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) {
    throw std::system_error(errno, std::generic_category(), "pipe");
  }
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

Child::Child(const ChildStart& start)
    : leads_group_(start.leads_group), outlives_us_(start.outlives_us) {
  const auto fail = [&](int error) {
    throw std::system_error(error, std::generic_category(),
                            "cannot start " + start.command.front());
  };
  Pipe report = make_pipe();
  report.write_end = UniqueFd(::fcntl(report.write_end.get(), F_DUPFD_CLOEXEC, kHighDescriptor));
  if (!report.write_end) fail(errno);
  const std::vector<char*> arguments = exec_vector(start.command);
  const std::vector<char*> environment = exec_vector(start.environment);
  const Prepared prepared{start,
                          start.program.empty() ? arguments.front() : start.program.c_str(),
                          arguments.data(),
                          start.environment.empty() ? environ : environment.data(),
                          ::getpid(),
                          report.write_end.get()};
  // No handler of this process may run in the child.
  sigset_t all;
  sigset_t previous;
  sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &previous);
  pid_ = start_process(prepared);
  const int error = errno;
  ::pthread_sigmask(SIG_SETMASK, &previous, nullptr);
  if (pid_ < 0) fail(error);
  report.write_end = UniqueFd();
  int fault = 0;
  ssize_t got = 0;
  do {
    got = ::read(report.read_end.get(), &fault, sizeof fault);
  } while (got < 0 && errno == EINTR);
  if (got != sizeof fault) return;
  ::waitpid(pid_, nullptr, 0);
  fail(fault);
}

Child::Child(Child&& other) noexcept { *this = std::move(other); }

Child& Child::operator=(Child&& other) noexcept {
  std::swap(pid_, other.pid_);
  std::swap(leads_group_, other.leads_group_);
  std::swap(outlives_us_, other.outlives_us_);
  std::swap(exit_code_, other.exit_code_);
  return *this;
}

Child::~Child() {
  if (pid_ == 0 || outlives_us_ || exit_code()) return;
  kill();
  const auto end = std::chrono::steady_clock::now() + kKillPatience;
  while (!exit_code() && std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  reap_later(exit_code_ ? 0 : pid_);
}

std::optional<int> Child::exit_code() {
  int status = 0;
  const pid_t reaped = exit_code_ ? 0 : ::waitpid(pid_, &status, WNOHANG);
  if (reaped == pid_) exit_code_ = exit_code_of(status);
  // The caller of let_go() has reaped it.
  if (reaped < 0 && errno == ECHILD) exit_code_ = kExitCannotExecute;
  return exit_code_;
}

void Child::signal(int number) const {
  if (!exit_code_) ::kill(pid_, number);
}

void Child::kill() const {
  if (!exit_code_) ::kill(leads_group_ ? -pid_ : pid_, SIGKILL);
}

}  // namespace dotresize
