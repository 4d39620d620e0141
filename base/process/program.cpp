#include "base/process/program.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <sstream>
#include <system_error>

#include "base/errors.h"
#include "base/process/environment.h"

namespace dotresize {
namespace fs = std::filesystem;
namespace {

bool is_executable(const fs::path& program) {
  struct stat status {};
  if (::access(program.c_str(), X_OK) != 0 || ::stat(program.c_str(), &status) != 0) return false;
  errno = EACCES;
  return S_ISREG(status.st_mode);
}

}  // namespace

int checked_output(const char* program, int exit_code) {
  errno = 0;
  std::cout.flush();
  const bool flushed = std::fflush(stdout) == 0;
  const int error = errno;
  if (flushed && std::cout && std::ferror(stdout) == 0) return exit_code;
  std::fprintf(stderr, "%s: error: cannot write to standard output: %s\n", program,
               error != 0
                   ? std::strerror(error)
                   : "an earlier write has failed: its disk is full, or its reader has gone");
  return exit_code == kExitOk ? kExitJobFailed : exit_code;
}

void open_standard_streams() {
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(stream, F_GETFD) >= 0) continue;
    // The lowest free number is that of the stream. Nobody reads why a message was not shown.
    if (::open("/dev/null", stream == STDERR_FILENO ? O_WRONLY : O_RDONLY) != stream) std::abort();
  }
}

void survive_file_size_limit() { std::signal(SIGXFSZ, SIG_IGN); }

void leave_unusable_temporary_directory() {
  const std::string place = environment_variable("TMPDIR");
  std::error_code error;
  if (place.empty() ||
      (fs::is_directory(place, error) && ::access(place.c_str(), W_OK | X_OK) == 0)) {
    return;
  }
  std::fprintf(stderr, "warning: TMPDIR, %s, is no directory that can be written; /tmp is used\n",
               place.c_str());
  ::unsetenv("TMPDIR");
}

fs::path folder_of_this_program() { return fs::read_symlink("/proc/self/exe").parent_path(); }

fs::path worker_program() {
  const fs::path named = environment_variable("DOTRESIZE_WORKER");
  fs::path worker =
      named.empty() ? folder_of_this_program() / "dotresize-worker" : fs::absolute(named);
  if (!is_executable(worker)) {
    throw ProgramMissing(worker.string() + ": " + std::generic_category().message(errno) +
                         "; DOTRESIZE_WORKER can name the dotresize-worker to use");
  }
  return worker;
}

void require_program(const std::string& name) {
  std::istringstream path(environment_variable("PATH"));
  for (std::string dir; std::getline(path, dir, ':');) {
    if (is_executable(fs::path(dir) / name)) return;
  }
  throw ProgramMissing("there is no " + name + " in PATH");
}

}  // namespace dotresize
