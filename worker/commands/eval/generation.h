#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "worker/evaluation/whole_model.h"

namespace dotresize {

/// The prompts of `eval --generate` as token ids of the model's own tokenizer.
struct PromptIds {
  std::vector<at::Tensor> ids;  ///< [1, n] int64 for each prompt
  int64_t longest = 0;          ///< length of the longest prompt in tokens
};

/// Throws InputError if the tokenizer is missing or a prompt has no tokens.
PromptIds tokenize_prompts(const std::vector<std::string>& prompts,
                           const std::filesystem::path& model_dir, int64_t vocab_size);

/// Returns the model's continuation of each prompt: `new_tokens` tokens, always the likeliest one,
/// so that two models can be compared. Calls `seen` with the number of tokens of each step. Throws
/// InputError as tokenize_prompts does.
std::vector<std::string> continue_prompts(const WholeModel& model,
                                          const std::filesystem::path& model_dir,
                                          const PromptIds& prompts, int64_t new_tokens,
                                          const std::function<void(int64_t tokens)>& seen);

}  // namespace dotresize
