#include "client/local/export_model.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <iostream>
#include <system_error>
#include <vector>

#include "base/errors.h"
#include "base/process/child_process.h"
#include "job/checkpoint/model_description.h"
#include "worker/python/python_helper.h"

namespace dotresize {
namespace {

namespace fs = std::filesystem;

fs::path default_output(const ExportRequest& request) {
  const fs::path model = fs::absolute(request.model).lexically_normal();
  const fs::path name = model.has_filename() ? model.filename() : model.parent_path().filename();
  const bool gguf = request.format == kGguf;
  return name.string() + "-" + (gguf ? request.type + ".gguf" : kNemotronNas);
}

/// Throws InputError unless `out` can be created: before the work instead of after it.
void require_creatable(const fs::path& out) {
  const auto refuse = [&](const std::string& why) { throw InputError(out.string() + ": " + why); };
  std::error_code error;
  const fs::file_type there = fs::symlink_status(out, error).type();
  if (there != fs::file_type::not_found && there != fs::file_type::none) {
    refuse("is there already; remove it, or name another FILE");
  }
  const fs::path folder = out.has_parent_path() ? out.parent_path() : fs::path(".");
  const fs::file_type parent = fs::status(folder, error).type();
  if (parent == fs::file_type::not_found) {
    refuse("its folder is not there; make it with mkdir -p " + folder.string() +
           ", or name another FILE");
  }
  if (parent != fs::file_type::none && parent != fs::file_type::directory) {
    refuse(folder.string() + " is a file, not a folder; name another FILE");
  }
  if (::access(folder.c_str(), W_OK | X_OK) != 0) {
    refuse("cannot be created in its folder: " + std::string(std::strerror(errno)) +
           "; name a FILE in a folder that you may write to");
  }
}

}  // namespace

void export_model(ExportRequest request) {
  const bool gguf = request.format == kGguf;
  if (!gguf && !request.type.empty()) {
    throw InputError("--type", "is for --to gguf; the weights of nemotron-nas keep their type");
  }
  if (request.model.empty()) throw InputError("MODEL_DIR", "is empty; name a model's directory");
  if (request.type.empty()) request.type = "f16";
  if (request.file.empty()) request.file = default_output(request);
  if (!request.file.has_filename()) request.file = request.file.parent_path();  // "out/"
  require_creatable(request.file);
  const ModelDescription model = describe_model(request.model);
  for (const std::string& warning : model.warnings) std::cerr << "warning: " << warning << "\n";
  std::vector<std::string> arguments = {request.model.string(), request.file.string()};
  if (gguf) arguments.insert(arguments.end(), {"--type", request.type});
  if (request.json) arguments.emplace_back("--json");
  std::vector<PythonModule> modules = {{"exporting", exporting_py()}};
  if (gguf) {
    modules.push_back({"gguf_tokenizer", gguf_tokenizer_py()});
    modules.push_back({"export_gguf", export_gguf_py()});
  } else {
    modules.push_back({"export_nemotron_nas", export_nemotron_nas_py()});
  }
  exec_program(python_helper_command(modules, arguments), model.json);
}

}  // namespace dotresize
