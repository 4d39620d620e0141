#include "worker/python/python_helper.h"

#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <filesystem>
#include <stdexcept>
#include <system_error>

#include "base/errors.h"
#include "base/process/child_process.h"
#include "base/process/environment.h"
#include "base/process/program.h"

namespace dotresize {
namespace fs = std::filesystem;

namespace {

fs::path python_of_source_tree() {
  return folder_of_this_program().parent_path().parent_path() / ".venv" / "bin" / "python";
}

/// Returns the reason why the source tree's Python is there and was not taken; "" if it was, or is
/// not there.
std::string passed_over() {
  const fs::path python = python_of_source_tree();
  if (::access(python.c_str(), X_OK) == 0 || errno == ENOENT || errno == ENOTDIR) return "";
  return " (this user cannot run " + python.string() + ": " +
         std::generic_category().message(errno) + ")";
}

}  // namespace

std::string python_program() {
  const std::string named = environment_variable("DOTRESIZE_PYTHON");
  if (!named.empty()) return named;
  const fs::path python = python_of_source_tree();
  return ::access(python.c_str(), X_OK) == 0 ? python.string() : "python3";
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

void run_helper(const std::string& what, const std::vector<std::string>& command,
                std::optional<std::chrono::seconds> idle_limit) {
  ChildResult result;
  try {
    result = run_child(command, idle_limit);
  } catch (const std::system_error& error) {
    throw ProgramMissing(std::string(error.what()) + ", which the " + what +
                         " helper needs: install Python or set DOTRESIZE_PYTHON");
  }
  if (result.hung) {
    throw std::runtime_error("the " + what + " helper has used no processor for " +
                             std::to_string(idle_limit->count()) +
                             " s (resources.timeout_s) and was ended: it was stopped, or a file "
                             "system does not answer");
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
    throw ProgramMissing("the " + what + " helper cannot run in " + command.front() +
                         passed_over() + ": " + result.last_line);
  }
  if (result.exit_code > 128) {
    throw std::runtime_error("the " + what + " helper was killed by signal " +
                             std::to_string(result.exit_code - 128) +
                             ": by the system if memory ran out, or by a user");
  }
  if (result.exit_code != 0) {
    throw std::runtime_error("the " + what + " helper (" + command.front() +
                             ") failed with exit code " + std::to_string(result.exit_code) + ": " +
                             result.last_line);
  }
}

}  // namespace

std::vector<PythonModule> output_code(bool has_maps) {
  if (!has_maps) return {{"modeling_layer_sizes", modeling_layer_sizes_py()}};
  return {{"configuration_dotresize", configuration_py()}, {"modeling_dotresize", modeling_py()}};
}

void run_python_helper(const std::string& what, std::string_view source,
                       const std::vector<std::string>& arguments,
                       std::optional<std::chrono::seconds> idle_limit) {
  run_helper(what, python_helper_command(source, arguments), idle_limit);
}

void run_tokenizer(const std::vector<std::string>& arguments,
                   std::optional<std::chrono::seconds> idle_limit) {
  run_helper(
      "tokenizer",
      python_helper_command(
          {{"text_files", text_files_py()}, {"tokenize_text", tokenize_text_py()}}, arguments),
      idle_limit);
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
