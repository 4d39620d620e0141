#include "worker/commands/eval/generation.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/errors.h"
#include "base/files/directory.h"
#include "base/files/durable_file.h"
#include "base/files/input_file.h"
#include "worker/python/python_helper.h"

namespace dotresize {
namespace fs = std::filesystem;
namespace {

using Json = nlohmann::json;

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

/// Runs tokenize_text.py with this `direction` on a document, and returns the resulting one.
Json translate(const char* direction, const fs::path& model_dir, const std::string& document) {
  const ScratchDirectory scratch;
  const fs::path from = scratch.path() / "from.json";
  const fs::path to = scratch.path() / "to.json";
  write_file_atomically(from, document);
  run_python_helper("tokenizer", tokenize_text_py(),
                    {direction, model_dir.string(), from.string(), to.string()});
  constexpr uint64_t kMaxBytes = uint64_t{64} << 20;
  return Json::parse(read_whole_file(to, kMaxBytes));
}

std::string as_document(const std::vector<std::string>& prompts) {
  try {
    return Json(prompts).dump();
  } catch (const Json::type_error&) {
    throw InputError("--generate", "a prompt is not UTF-8");
  }
}

}  // namespace

PromptIds tokenize_prompts(const std::vector<std::string>& prompts, const fs::path& model_dir,
                           int64_t vocab_size) {
  PromptIds result;
  for (const Json& row : translate("--encode", model_dir, as_document(prompts))) {
    const auto ids = row.get<std::vector<int64_t>>();
    if (std::ranges::max(ids) >= vocab_size) {
      throw InputError(model_dir.string() + ": its tokenizer knows the token " +
                       std::to_string(std::ranges::max(ids)) + ", but the model has only " +
                       std::to_string(vocab_size));
    }
    result.ids.push_back(at::tensor(ids, at::kLong).view({1, -1}));
    result.longest = std::max(result.longest, std::ssize(ids));
  }
  return result;
}

std::vector<std::string> continue_prompts(const WholeModel& model, const fs::path& model_dir,
                                          const PromptIds& prompts, int64_t new_tokens,
                                          const std::function<void(int64_t tokens)>& seen) {
  Json rows = Json::array();
  for (const at::Tensor& ids : prompts.ids) {
    rows.push_back(continue_prompt(model, ids, new_tokens, seen));
  }
  return translate("--decode", model_dir, rows.dump()).get<std::vector<std::string>>();
}

}  // namespace dotresize
