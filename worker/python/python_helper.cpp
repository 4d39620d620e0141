#include "worker/python/python_helper.h"

#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <system_error>

#include "base/child_process.h"
#include "base/errors.h"
#include "base/program.h"

namespace dotresize {
namespace fs = std::filesystem;

std::string python_program() {
  if (const char* python = std::getenv("DOTRESIZE_PYTHON")) return python;
  const fs::path bin = fs::read_symlink("/proc/self/exe").parent_path();
  const fs::path venv = bin.parent_path().parent_path() / ".venv" / "bin" / "python";
  return fs::exists(venv) ? venv.string() : "python3";
}

std::vector<std::string> python_helper_command(std::string_view source,
                                               const std::vector<std::string>& arguments) {
  // -I: nothing of the directory where the user happens to be is imported.
  std::vector<std::string> command = {python_program(), "-I", "-c", std::string(source)};
  command.insert(command.end(), arguments.begin(), arguments.end());
  return command;
}

void run_python_helper(const std::string& what, std::string_view source,
                       const std::vector<std::string>& arguments) {
  const std::vector<std::string> command = python_helper_command(source, arguments);
  ChildResult result;
  try {
    result = run_child(command);
  } catch (const std::system_error& error) {
    throw ProgramMissing(std::string(error.what()) + ", which the " + what +
                         " helper needs: install Python or set DOTRESIZE_PYTHON");
  }
  if (result.exit_code == kExitBadData) throw InputError(result.last_line);
  if (result.exit_code == kExitUnavailable || result.exit_code == kExitCannotExecute) {
    throw ProgramMissing("the " + what + " helper cannot run in " + command.front() + ": " +
                         result.last_line);
  }
  if (result.exit_code != 0) {
    throw std::runtime_error("the " + what + " helper (" + command.front() +
                             ") failed with exit code " + std::to_string(result.exit_code) + ": " +
                             result.last_line);
  }
}

std::string python_fault() {
  try {
    run_python_helper("tokenize", tokenize_text_py(), {"--check"});
    return "";
  } catch (const std::exception& error) {
    return error.what();
  }
}

}  // namespace dotresize
