#include "client/local/export_model.h"

#include <vector>

#include "base/errors.h"
#include "client/local/model_program.h"

namespace dotresize {
namespace {

namespace fs = std::filesystem;

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

}  // namespace dotresize
