#include "worker/python/python_helper.h"

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <system_error>

#include "base/errors.h"
#include "base/process/child_process.h"
#include "base/process/environment.h"
#include "base/process/program.h"

namespace dotresize {
namespace fs = std::filesystem;

std::string python_program() {
  if (const char* python = std::getenv("DOTRESIZE_PYTHON")) return python;
  const fs::path root = folder_of_this_program().parent_path().parent_path();
  const fs::path venv = root / ".venv" / "bin" / "python";
  return fs::exists(venv) ? venv.string() : "python3";
}

std::vector<std::string> python_helper_command(std::string_view source,
                                               const std::vector<std::string>& arguments) {
  // -I: imports nothing from the user's current directory.
  std::vector<std::string> command = {python_program(), "-I", "-c", std::string(source)};
  command.insert(command.end(), arguments.begin(), arguments.end());
  return command;
}

std::vector<std::string> python_helper_command(const std::vector<PythonModule>& modules,
                                               const std::vector<std::string>& arguments) {
  // Each module is in sys.modules before the next one imports it. The last one is the program.
  static constexpr std::string_view kStart =
      "import sys, types\n"
      "count = int(sys.argv[1])\n"
      "given = sys.argv[2:2 + 2 * count]\n"
      "del sys.argv[1:2 + 2 * count]\n"
      "for name, source in zip(given[::2], given[1::2]):\n"
      "    module = types.ModuleType(name)\n"
      "    sys.modules[name] = module\n"
      "    exec(compile(source, name + '.py', 'exec'), module.__dict__)\n"
      "sys.exit(module.main(sys.argv[1:]))\n";
  std::vector<std::string> all = {std::to_string(modules.size())};
  for (const PythonModule& module : modules) {
    all.emplace_back(module.name);
    all.emplace_back(module.source);
  }
  all.insert(all.end(), arguments.begin(), arguments.end());
  return python_helper_command(kStart, all);
}

namespace {

void run_helper(const std::string& what, const std::vector<std::string>& command) {
  ChildResult result;
  try {
    result = run_child(command);
  } catch (const std::system_error& error) {
    throw ProgramMissing(std::string(error.what()) + ", which the " + what +
                         " helper needs: install Python or set DOTRESIZE_PYTHON");
  }
  if (result.exit_code == kExitBadData) throw InputError(result.last_line);
  // A library misled by its input ends like this. It has run without input before (python_fault).
  if (result.exit_code == 128 + SIGABRT || result.exit_code == 128 + SIGSEGV ||
      result.exit_code == 128 + SIGXCPU) {
    throw InputError("the " + what + " helper was killed by its input, by signal " +
                     std::to_string(result.exit_code - 128) +
                     ": a file is damaged or needs more memory or time than is available");
  }
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

}  // namespace

void run_python_helper(const std::string& what, std::string_view source,
                       const std::vector<std::string>& arguments) {
  run_helper(what, python_helper_command(source, arguments));
}

void run_tokenizer(const std::vector<std::string>& arguments) {
  run_helper("tokenizer", python_helper_command({{"text_files", text_files_py()},
                                                 {"tokenize_text", tokenize_text_py()}},
                                                arguments));
}

std::string python_fault() {
  try {
    run_tokenizer({"--check"});
    return "";
  } catch (const std::exception& error) {
    return error.what();
  }
}

}  // namespace dotresize
