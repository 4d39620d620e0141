#pragma once

#include <array>
#include <filesystem>
#include <string>

namespace dotresize {

/// Files of a model beside config.json and weights that its output has too, as they are.
inline constexpr std::array<const char*, 10> kCompanionFiles = {
    "tokenizer.json",     "tokenizer_config.json",
    "tokenizer.model",    "special_tokens_map.json",
    "vocab.json",         "merges.txt",
    "added_tokens.json",  "chat_template.jinja",
    "chat_template.json", "generation_config.json"};

/// Throws InputError if one of them is there and no regular file: nobody is to learn that at the
/// end of a job.
void require_regular_companions(const std::filesystem::path& model_dir);

}  // namespace dotresize
