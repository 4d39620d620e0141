#include "base/child_process.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <system_error>

#include "base/unique_fd.h"

namespace dotresize {
namespace {

constexpr size_t kMaxKeptOutput = 64 * 1024;

void require(int error, const std::string& what) {
  if (error != 0) throw std::system_error(error, std::generic_category(), what);
}

std::string read_tail(int fd) {
  std::string tail;
  std::array<char, 4096> buffer;
  for (;;) {
    const ssize_t got = ::read(fd, buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return tail;
    tail.append(buffer.data(), static_cast<size_t>(got));
    if (tail.size() > kMaxKeptOutput) tail.erase(0, tail.size() - kMaxKeptOutput);
  }
}

std::string last_line(std::string text) {
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text.substr(text.find_last_of('\n') + 1);
}

struct Pipe {
  UniqueFd read_end;
  UniqueFd write_end;
};

Pipe make_pipe() {
  std::array<int, 2> ends;
  require(::pipe2(ends.data(), O_CLOEXEC) == 0 ? 0 : errno, "pipe");
  return {UniqueFd(ends[0]), UniqueFd(ends[1])};
}

}  // namespace

std::vector<char*> exec_vector(const std::vector<std::string>& strings) {
  std::vector<char*> pointers;
  // The signatures of exec predate const.
  for (const std::string& string : strings) pointers.push_back(const_cast<char*>(string.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

int exit_code_of(int wait_status) {
  return WIFSIGNALED(wait_status) ? 128 + WTERMSIG(wait_status) : WEXITSTATUS(wait_status);
}

ChildProcess::ChildProcess() {
  require(posix_spawn_file_actions_init(&actions_), "posix_spawn");
  require(posix_spawnattr_init(&attributes_), "posix_spawn");
  require(posix_spawn_file_actions_addopen(&actions_, STDIN_FILENO, "/dev/null", O_RDONLY, 0),
          "posix_spawn");
  sigset_t all;
  sigfillset(&all);
  sigset_t none;
  sigemptyset(&none);
  require(posix_spawnattr_setsigdefault(&attributes_, &all), "posix_spawn");
  require(posix_spawnattr_setsigmask(&attributes_, &none), "posix_spawn");
  require(posix_spawnattr_setflags(&attributes_, POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK),
          "posix_spawn");
}

ChildProcess::~ChildProcess() {
  posix_spawn_file_actions_destroy(&actions_);
  posix_spawnattr_destroy(&attributes_);
}

void ChildProcess::give_descriptor(int fd, int number) {
  require(posix_spawn_file_actions_adddup2(&actions_, fd, number), "posix_spawn");
}

void ChildProcess::change_directory(const std::filesystem::path& directory) {
  require(posix_spawn_file_actions_addchdir_np(&actions_, directory.c_str()), "posix_spawn");
}

pid_t ChildProcess::run(const std::string& program, const std::vector<std::string>& arguments,
                        const std::vector<std::string>& environment) const {
  return spawn(program, arguments, exec_vector(environment).data());
}

pid_t ChildProcess::run(const std::string& program,
                        const std::vector<std::string>& arguments) const {
  return spawn(program, arguments, environ);
}

pid_t ChildProcess::spawn(const std::string& program, const std::vector<std::string>& arguments,
                          char* const* environment) const {
  pid_t pid = 0;
  require(::posix_spawnp(&pid, program.c_str(), &actions_, &attributes_,
                         exec_vector(arguments).data(), environment),
          "cannot start " + arguments.front());
  return pid;
}

ChildResult run_child(const std::vector<std::string>& command) {
  Pipe output = make_pipe();
  ChildProcess child;
  child.give_descriptor(output.write_end.get(), STDERR_FILENO);
  const pid_t pid = child.run(command.front(), command);
  output.write_end = UniqueFd();
  ChildResult result;
  result.last_line = last_line(read_tail(output.read_end.get()));
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  result.exit_code = exit_code_of(status);
  return result;
}

}  // namespace dotresize
