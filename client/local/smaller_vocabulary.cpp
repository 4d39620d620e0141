#include "client/local/smaller_vocabulary.h"

#include "client/local/model_program.h"

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
  const std::filesystem::path out = new_output(request.out);
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
