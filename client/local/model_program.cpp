#include "client/local/model_program.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <iostream>
#include <system_error>

#include "base/errors.h"
#include "base/process/child_process.h"

namespace dotresize {

namespace fs = std::filesystem;

fs::path new_output(const fs::path& given) {
  fs::path out = given.has_filename() ? given : given.parent_path();  // "out/"
  const auto refuse = [&](const std::string& why) { throw InputError(out.string() + ": " + why); };
  std::error_code error;
  const fs::file_type there = fs::symlink_status(out, error).type();
  if (there != fs::file_type::not_found && there != fs::file_type::none) {
    refuse("is there already; remove it, or name another output");
  }
  const fs::path folder = out.has_parent_path() ? out.parent_path() : fs::path(".");
  const fs::file_type parent = fs::status(folder, error).type();
  if (parent == fs::file_type::not_found) {
    refuse("its folder is not there; make it with mkdir -p " + folder.string() +
           ", or name another output");
  }
  if (parent != fs::file_type::none && parent != fs::file_type::directory) {
    refuse(folder.string() + " is a file, not a folder; name another output");
  }
  if (::access(folder.c_str(), W_OK | X_OK) != 0) {
    refuse("cannot be created in its folder: " + std::string(std::strerror(errno)) +
           "; name an output in a folder that you may write to");
  }
  return out;
}

void exec_model_program(const fs::path& model, const DescriptionRefusals& refusals,
                        const std::vector<PythonModule>& modules, const fs::path& out,
                        const std::vector<std::string>& arguments) {
  const ModelDescription description = describe_model(model, refusals);
  for (const std::string& warning : description.warnings) {
    std::cerr << "warning: " << warning << "\n";
  }
  std::vector<std::string> all = {model.string(), out.string()};
  all.insert(all.end(), arguments.begin(), arguments.end());
  exec_program(python_helper_command(modules, all), description.json);
}

}  // namespace dotresize
