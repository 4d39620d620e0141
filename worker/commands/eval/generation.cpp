#include "worker/commands/eval/generation.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/durable_file.h"
#include "base/errors.h"
#include "base/input_file.h"
#include "base/scratch_directory.h"
#include "worker/checkpoint/tokens.h"
#include "worker/python/python_helper.h"

namespace dotresize {
namespace fs = std::filesystem;
namespace {

std::vector<int64_t> continue_prompt(const WholeModel& model, const at::Tensor& ids,
                                     int64_t new_tokens,
                                     const std::function<void(int64_t tokens)>& seen) {
  Decoder decoder(model, 1, ids.size(1) + new_tokens);
  std::vector<int64_t> written;
  at::Tensor next = ids;
  while (std::ssize(written) < new_tokens) {
    const at::Tensor likeliest = decoder.read(next).argmax(-1);
    seen(next.size(1));
    written.push_back(likeliest.item<int64_t>());
    next = likeliest.view({1, 1});
  }
  return written;
}

}  // namespace

PromptIds tokenize_prompts(const std::vector<std::string>& prompts, const fs::path& model_dir,
                           int64_t vocab_size) {
  const ScratchDirectory scratch;
  const fs::path text = scratch.path() / "prompt.txt";
  const fs::path tokens = scratch.path() / "tokens.safetensors";
  PromptIds result;
  for (const std::string& prompt : prompts) {
    write_file_atomically(text, prompt);
    run_python_helper("tokenizer", tokenize_text_py(),
                      {model_dir.string(), tokens.string(), text.string()});
    result.ids.push_back(read_tokens(tokens, vocab_size).tokens.view({1, -1}).clone());
    result.longest = std::max(result.longest, result.ids.back().size(1));
  }
  return result;
}

std::vector<std::string> continue_prompts(const WholeModel& model, const fs::path& model_dir,
                                          const PromptIds& prompts, int64_t new_tokens,
                                          const std::function<void(int64_t tokens)>& seen) {
  nlohmann::json rows = nlohmann::json::array();
  for (const at::Tensor& ids : prompts.ids) {
    rows.push_back(continue_prompt(model, ids, new_tokens, seen));
  }
  const ScratchDirectory scratch;
  const fs::path ids_file = scratch.path() / "ids.json";
  const fs::path texts_file = scratch.path() / "texts.json";
  write_file_atomically(ids_file, rows.dump());
  run_python_helper("tokenizer", detokenize_py(),
                    {model_dir.string(), ids_file.string(), texts_file.string()});
  constexpr uint64_t kMaxBytes = uint64_t{64} << 20;
  return nlohmann::json::parse(read_whole_file(texts_file, kMaxBytes))
      .get<std::vector<std::string>>();
}

}  // namespace dotresize
