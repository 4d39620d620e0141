#include "client/programs.h"

#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <system_error>

namespace dotresize {

namespace fs = std::filesystem;

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

void exec_program(const std::vector<std::string>& command) {
  std::vector<char*> arguments;
  for (const std::string& argument : command) {
    arguments.push_back(const_cast<char*>(argument.c_str()));  // execvp's signature predates const
  }
  arguments.push_back(nullptr);
  execvp(arguments[0], arguments.data());
  const int reason = errno;
  throw ProgramMissing("cannot start " + command.front() + ": " +
                       std::generic_category().message(reason));
}

}  // namespace dotresize
