#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "worker/evaluation/whole_model.h"

namespace dotresize {

/// The prompts of `eval --generate` as token ids, by the model's own tokenizer.
struct PromptIds {
  std::vector<at::Tensor> ids;  ///< [1, n] int64, one for each prompt
  int64_t longest = 0;          ///< tokens
};

/// Throws InputError if the tokenizer is missing or a prompt has no tokens.
PromptIds tokenize_prompts(const std::vector<std::string>& prompts,
                           const std::filesystem::path& model_dir, int64_t vocab_size);

/// What the model writes after each prompt: `new_tokens` tokens, always the likeliest one. No
/// randomness, so that two models can be compared. `seen` hears of every token that is read. Throws
/// InputError as tokenize_prompts does.
std::vector<std::string> continue_prompts(const WholeModel& model,
                                          const std::filesystem::path& model_dir,
                                          const PromptIds& prompts, int64_t new_tokens,
                                          const std::function<void(int64_t tokens)>& seen);

}  // namespace dotresize
