#include "client/local/rewritten_model.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <iostream>
#include <system_error>

#include "base/errors.h"
#include "base/process/child_process.h"
#include "job/checkpoint/model_description.h"
#include "worker/python/python_helper.h"

namespace dotresize {
namespace fs = std::filesystem;
namespace {

const DescriptionRefusals kNotExported{
    .wrapper =
        "which is not exported; convert it like its source, with llama.cpp's "
        "convert_hf_to_gguf.py or the engine's own loader",
    .quantised = "and are not exported; export an output of a job, or the model in 16 bits"};

fs::path default_output(const ExportRequest& request) {
  const fs::path model = fs::absolute(request.model).lexically_normal();
  const fs::path name = model.has_filename() ? model.filename() : model.parent_path().filename();
  const bool gguf = request.format == kGguf;
  return name.string() + "-" + (gguf ? request.type + ".gguf" : kNemotronNas);
}

const DescriptionRefusals kKeepsItsTokens{
    .wrapper = "whose tokens stand for images too; only a model of text alone can lose tokens",
    .quantised = "and cannot lose tokens; give the model in 16 bits, or an output of a job"};

void add_files(std::vector<std::string>& arguments, const std::string& option,
               const std::vector<std::string>& files) {
  if (files.empty()) return;
  arguments.push_back(option);
  arguments.insert(arguments.end(), files.begin(), files.end());
}

/// Returns the path without a slash at its end. Throws InputError unless something can be created
/// there: before the work instead of after it.
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

/// Reads the model and prints its warnings, then becomes the program of these modules with the
/// arguments "MODEL OUT ARGUMENTS..." and the model's description. Throws InputError if the model
/// is refused.
[[noreturn]] void exec_model_program(const fs::path& model, const DescriptionRefusals& refusals,
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

}  // namespace

void export_model(ExportRequest request) {
  const bool gguf = request.format == kGguf;
  if (!gguf && !request.type.empty()) {
    throw InputError("--type", "is for --to gguf; the weights of nemotron-nas keep their type");
  }
  if (request.type.empty()) request.type = "f16";
  if (request.file.empty()) request.file = default_output(request);
  const fs::path out = new_output(request.file);
  std::vector<std::string> arguments;
  if (gguf) arguments = {"--type", request.type};
  if (request.json) arguments.emplace_back("--json");
  std::vector<PythonModule> modules = {{"exporting", exporting_py()}};
  if (gguf) {
    modules.push_back({"gguf_families", gguf_families_py()});
    modules.push_back({"gguf_tensors", gguf_tensors_py()});
    modules.push_back({"gguf_tokenizer", gguf_tokenizer_py()});
    modules.push_back({"export_gguf", export_gguf_py()});
  } else {
    modules.push_back({"model_directory", model_directory_py()});
    modules.push_back({"export_nemotron_nas", export_nemotron_nas_py()});
  }
  exec_model_program(request.model, kNotExported, modules, out, arguments);
}

void shrink_vocabulary(const VocabularyRequest& request) {
  const fs::path out = new_output(request.out);
  std::vector<std::string> arguments = {"--keep", std::to_string(request.keep)};
  add_files(arguments, "--text", request.texts);
  add_files(arguments, "--check", request.check);
  if (request.json) arguments.emplace_back("--json");
  const std::vector<PythonModule> modules = {{"exporting", exporting_py()},
                                             {"model_directory", model_directory_py()},
                                             {"text_files", text_files_py()},
                                             {"tokenize_text", tokenize_text_py()},
                                             {"smaller_tokenizer", smaller_tokenizer_py()},
                                             {"smaller_vocabulary", smaller_vocabulary_py()}};
  exec_model_program(request.model, kKeepsItsTokens, modules, out, arguments);
}

}  // namespace dotresize
