#include "client/local/smaller_vocabulary.h"

#include <iostream>

#include "base/errors.h"
#include "base/process/child_process.h"
#include "client/local/new_output.h"
#include "job/checkpoint/model_description.h"
#include "worker/python/python_helper.h"

namespace dotresize {
namespace {

const DescriptionRefusals kKeepsItsTokens{
    .wrapper = "whose tokens stand for images too; only a model of text alone can lose tokens",
    .quantised = "and cannot lose tokens; give the model in 16 bits, or an output of a job"};

void add_files(std::vector<std::string>& arguments, const std::string& option,
               const std::vector<std::string>& files) {
  if (files.empty()) return;
  arguments.push_back(option);
  arguments.insert(arguments.end(), files.begin(), files.end());
}

}  // namespace

void shrink_vocabulary(const VocabularyRequest& request) {
  require_creatable(request.out);
  const ModelDescription model = describe_model(request.model, kKeepsItsTokens);
  for (const std::string& warning : model.warnings) std::cerr << "warning: " << warning << "\n";
  std::vector<std::string> arguments = {request.model.string(), request.out.string(), "--keep",
                                        std::to_string(request.keep)};
  add_files(arguments, "--text", request.texts);
  add_files(arguments, "--check", request.check);
  if (request.json) arguments.emplace_back("--json");
  const std::vector<PythonModule> modules = {{"exporting", exporting_py()},
                                             {"model_directory", model_directory_py()},
                                             {"text_files", text_files_py()},
                                             {"tokenize_text", tokenize_text_py()},
                                             {"smaller_tokenizer", smaller_tokenizer_py()},
                                             {"smaller_vocabulary", smaller_vocabulary_py()}};
  exec_program(python_helper_command(modules, arguments), model.json);
}

}  // namespace dotresize
